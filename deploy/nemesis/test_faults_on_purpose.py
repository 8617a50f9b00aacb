"""Checks without a build that the faults on purpose fit the sources, `prove`, the judge and the documentation."""

import pathlib
import re
import subprocess
import unittest

import judge

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
PATCH = HERE / "faults-on-purpose.patch"
PROOF = re.compile(r"^[0-9] ([a-z-]+-[12]) ([a-z_]+) ([a-z_]+)$", re.MULTILINE)


class FaultsOnPurpose(unittest.TestCase):
    def setUp(self):
        self.proofs = PROOF.findall((HERE / "prove").read_text())
        self.assertTrue(self.proofs)

    def test_patch_applies_to_the_sources(self):
        command = ["git", "apply", "--check", str(PATCH)]
        checked = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_each_file_names_the_switch_by_a_path_that_its_crate_has(self):
        for part in PATCH.read_text().split("diff --git a/")[1:]:
            added = "\n".join(line for line in part.splitlines() if line.startswith("+"))
            foreign = "linkledger_core::" if part.startswith("core/src/") else "crate::has_fault"
            self.assertNotIn(foreign, added, part.split()[0])

    def test_each_fault_is_in_the_patch(self):
        added = [line for line in PATCH.read_text().splitlines() if line.startswith("+")]
        names = set(re.findall(r'has_fault\("(\w+)"\)', "\n".join(added)))
        self.assertEqual({fault for _, fault, _ in self.proofs}, names)

    def test_each_fault_breaks_a_rule_of_the_judge_and_of_the_table(self):
        table = (REPOSITORY / "docs/reliability.md").read_text()
        rules = {rule for _, _, rule in self.proofs}
        self.assertLessEqual(rules, {rule.__name__ for rule in judge.RULES})
        self.assertEqual([rule for rule in sorted(rules) if f"| `{rule}` |" not in table], [])


if __name__ == "__main__":
    unittest.main()
