# SPDX-License-Identifier: Apache-2.0
"""The package as a whole: names, errors, what an import loads."""
import importlib
import os
import re
import subprocess
import sys
import unittest

import transom
from transom._names import MODULE_OF_NAME, OWN_NAMES, PARTNER_MODULES


class PackageTest(unittest.TestCase):
    def test_every_public_name_is_there(self):
        for name in MODULE_OF_NAME:
            self.assertIsNotNone(getattr(transom, name), name)
        with self.assertRaises(AttributeError):
            transom.AutoModelForTelepathy

    def test_an_import_loads_neither_the_library_nor_torch(self):
        script = "import sys, transom; print([n for n in ('transom._transom', 'torch', 'numpy') if n in sys.modules])"
        done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "[]")

    def test_type_checkers_see_the_same_names(self):
        with open(os.path.join(os.path.dirname(transom.__file__), "__init__.pyi"), encoding="utf-8") as file:
            text = file.read()
        names = set(re.findall(r"as (\w+)$|^class (\w+)", text, re.MULTILINE))
        found = {a or b for a, b in names} - {"_Model", "_Tokenizer"}
        self.assertEqual(found, OWN_NAMES)

    def test_submodules_of_scripts(self):
        for name in ("utils", "trainer_utils", "peft", *PARTNER_MODULES):
            self.assertIs(getattr(transom, name), importlib.import_module("transom." + name))

    def test_errors_have_a_kind_and_one_line(self):
        with self.assertRaises(transom.TransomError) as caught:
            transom.pipeline("text-classification", model="no/such/directory/here")
        self.assertIn(caught.exception.kind, ("input", "usage"))
        self.assertNotIn("\n", str(caught.exception))
        with self.assertRaises(ValueError):
            transom.pipeline("text-telepathy", model=".")


if __name__ == "__main__":
    unittest.main()
