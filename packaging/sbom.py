# SPDX-License-Identifier: Apache-2.0
"""The parts of a package as SPDX 2.3 (spdx.github.io/spdx-spec/v2.3), in JSON."""
import hashlib
import json
import re
import time

from licences import parts_of


def identifier(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def write_sbom(path, name, tree, source, when):
    """Files of Transom with their digests, and the packages that libraries came from."""
    version = name.rpartition("-")[2]
    packages = [{"SPDXID": identifier("transom"), "name": "transom", "versionInfo": version,
                 "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "Apache-2.0",
                 "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION"}]
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                  "relatedSpdxElement": identifier("transom")}]
    for label, part_version, files, texts in parts_of(tree, source):
        packages.append({"SPDXID": identifier(label), "name": label, "versionInfo": part_version,
                         "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                         "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
                         "licenseComments": f"the text is in {label}.txt" if texts else "no text was found",
                         "copyrightText": "NOASSERTION", "supplier": "NOASSERTION",
                         "comment": "in " + ", ".join(sorted({file.name for file in files}))})
        relations.append({"spdxElementId": identifier("transom"), "relationshipType": "DEPENDS_ON",
                          "relatedSpdxElement": identifier(label)})
    files = []
    for file in sorted(tree.root.rglob("*")):
        if file.is_file():
            data, relative = file.read_bytes(), file.relative_to(tree.root).as_posix()
            files.append({"SPDXID": identifier("File-" + relative), "fileName": "./" + relative,
                          "checksums": [{"algorithm": "SHA1", "checksumValue": hashlib.sha1(data).hexdigest()},
                                        {"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}],
                          "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"})
            relations.append({"spdxElementId": identifier("transom"), "relationshipType": "CONTAINS",
                              "relatedSpdxElement": identifier("File-" + relative)})
    digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": name,
                "documentNamespace": f"urn:transom:sbom:{name}:{digest}",
                "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)),
                                 "creators": ["Tool: transom-packaging"]},
                "packages": packages, "files": files, "relationships": relations}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
