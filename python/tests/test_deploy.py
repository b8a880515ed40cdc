# SPDX-License-Identifier: Apache-2.0
"""Manifests and chart of deploy/: what they must have, and names that fit each other. Not a substitute for a cluster."""
import pathlib
import re
import unittest

try:
    import yaml
except ImportError:
    yaml = None

DEPLOY = pathlib.Path(__file__).resolve().parent.parent.parent / "deploy"


def documents(name):
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def of_kind(name, kind):
    return next(each for each in documents(name) if each["kind"] == kind)


@unittest.skipUnless(yaml, "needs PyYAML")
class ManifestTest(unittest.TestCase):
    def pods(self):
        yield of_kind("serving.yaml", "Deployment")["spec"]["template"]["spec"]
        yield of_kind("training.yaml", "Job")["spec"]["template"]["spec"]

    def test_pods_have_no_rights(self):
        for pod in self.pods():
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertFalse(pod["automountServiceAccountToken"])
            for container in pod["containers"]:
                rights = container["securityContext"]
                self.assertTrue(rights["readOnlyRootFilesystem"])
                self.assertFalse(rights["allowPrivilegeEscalation"])
                self.assertEqual(rights["capabilities"], {"drop": ["ALL"]})

    def test_volumes_are_there(self):
        for pod in self.pods():
            names = {volume["name"] for volume in pod["volumes"]}
            for container in pod["containers"]:
                self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, names)

    def test_the_server_is_asked_where_it_answers(self):
        container = of_kind("serving.yaml", "Deployment")["spec"]["template"]["spec"]["containers"][0]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            self.assertEqual(container[probe]["httpGet"], {"path": "/health", "port": "http"})
        self.assertEqual(container["args"][container["args"].index("--port") + 1], str(ports["http"]))
        self.assertEqual(of_kind("serving.yaml", "Service")["spec"]["ports"][0]["targetPort"], "http")

    def test_selectors_fit(self):
        deployment = of_kind("serving.yaml", "Deployment")["spec"]
        labels = deployment["template"]["metadata"]["labels"]
        self.assertEqual(deployment["selector"]["matchLabels"], labels)
        self.assertEqual(of_kind("serving.yaml", "Service")["spec"]["selector"], labels)

    def test_ranks_of_a_job(self):
        job = of_kind("training.yaml", "Job")
        container = job["spec"]["template"]["spec"]["containers"][0]
        environment = {each["name"]: each.get("value") for each in container["env"]}
        self.assertEqual(int(environment["WORLD_SIZE"]), job["spec"]["completions"])
        service = of_kind("training.yaml", "Service")
        self.assertEqual(environment["MASTER_ADDR"], f"{job['metadata']['name']}-0.{service['metadata']['name']}")
        self.assertEqual(service["spec"]["ports"][0]["port"], int(environment["MASTER_PORT"]))

    def test_the_chart_uses_values_that_it_has(self):
        chart = DEPLOY / "helm/transom"
        values = yaml.safe_load((chart / "values.yaml").read_text())
        used = set()
        for template in sorted((chart / "templates").glob("*.yaml")):
            text = template.read_text()
            self.assertEqual(text.count("{{"), text.count("}}"), template)
            for path in re.findall(r"\.Values\.([\w.]+)", text):
                value = values
                for part in path.split("."):
                    self.assertIn(part, value, path)
                    value = value[part]
                used.add(path.split(".")[0])
        self.assertEqual(used, set(values))


if __name__ == "__main__":
    unittest.main()
