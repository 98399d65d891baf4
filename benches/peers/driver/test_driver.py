"""python3 -m unittest discover -s benches/peers/driver -t benches/peers"""

import os
import sys
import tempfile
import unittest

from driver import installed, machine, rows
from driver.processes import Peer
from driver.workloads import NAMES

HEAD = {"mode": "jit", "version": "1", "framework": "jax", "isa": "avx2", "workload": "w1.add", "threads": 1}


def answer(us, **more):
    return {"median_us": us, "p10": us * 0.9, "p90": us * 1.1} | more


class Rows(unittest.TestCase):
    def test_a_row_is_the_median_of_its_rounds(self):
        rounds = [answer(4.0, compile_ms=7.0, check=[[1, 1 / 3, 2.0, 3.0]]), answer(2.0), answer(3.0)]
        row = rows.merged(HEAD, rounds)
        self.assertEqual(list(row)[:6], list(rows.HEAD))
        self.assertEqual((row["median_us"], row["p10"], row["p90"]), (3.0, 2.7, 3.3))
        self.assertEqual((row["rounds"], row["spread"]), ([4.0, 2.0, 3.0], 0.667))
        self.assertEqual((row["compile_ms"], row["check"]), (7.0, [[1, 0.3333333, 2.0, 3.0]]))

    def test_what_was_not_measured_has_the_reason(self):
        row = rows.merged(HEAD, [{"note": "n/a: no tape"}, {"note": "later"}])
        self.assertEqual((row["median_us"], row["note"]), (None, "n/a: no tape"))
        self.assertEqual(rows.merged(HEAD, [])["note"], "n/a: no answer")

    def test_results_agree_within_rounding(self):
        ours = [[100, 10.0, 50.0, 1.0]]
        self.assertTrue(rows.agree(ours, [[100, 10.004, 50.004, 1.04]]))
        self.assertFalse(rows.agree(ours, [[100, 10.01, 50.0, 1.0]]))
        self.assertTrue(rows.agree(ours, [[100, 10.01, 50.0, 1.0]], bf16=True))
        self.assertFalse(rows.agree(ours, [[100, 10.0, 50.0, 1.06]]))
        self.assertFalse(rows.agree(ours, [[99, 10.0, 50.0, 1.0]]))
        self.assertFalse(rows.agree(ours, [[100, float("nan"), 50.0, 1.0]]))
        self.assertFalse(rows.agree(ours, ours + ours))

    def test_peers_are_judged_by_ours(self):
        ours = HEAD | {"framework": "straightline", "check": [[1, 1.0, 1.0, 0.5]]}
        same = HEAD | {"check": [[1, 1.0, 1.0, 0.5]]}
        other = HEAD | {"check": [[1, 2.0, 2.0, 1.0]]}
        absent = HEAD | {"median_us": None}
        found, complaints = rows.judged([ours, same, other, absent])
        self.assertEqual([r.get("agrees") for r in found], [None, True, False, None])
        self.assertEqual(len(complaints), 1)
        self.assertIn("w1.add: jax (jit) gives", complaints[0])

    def test_groups_are_replaced_whole_and_stand_in_order(self):
        row = lambda framework, isa, workload, us: {
            "framework": framework, "isa": isa, "workload": workload, "threads": 1, "median_us": us,
        }
        old = [
            {"framework": "machine", "isa": "avx2", "threads": 1},
            row("jax", "avx2", "w2.x", 1),
            row("torch", "avx2", "w2.x", 1),
            row("torch", "avx2", "w1.x", 1),
        ]
        new = [row("jax", "avx2", "w2.x", 2), row("jax", "avx512", "w1.x", 2)]
        new.append({"framework": "machine", "isa": "avx512", "threads": 1})
        joined = rows.joined(old, new, ["w1.x", "w2.x"])
        short = [(r["framework"], r["isa"], r.get("workload")) for r in joined]
        self.assertEqual(short, [
            ("machine", "avx512", None),
            ("jax", "avx512", "w1.x"),
            ("machine", "avx2", None),
            ("torch", "avx2", "w1.x"),
            ("jax", "avx2", "w2.x"),
        ])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "rows.jsonl")
            self.assertEqual(rows.read(path), [])
            rows.write(path, joined)
            self.assertEqual(rows.read(path), joined)

    def test_text_goes_between_its_markers(self):
        document = "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb\n"
        self.assertEqual(rows.spliced(document, "x", "new\n"), document.replace("old", "new"))
        with self.assertRaisesRegex(ValueError, "one line"):
            rows.spliced(document, "y", "new")


class Machines(unittest.TestCase):
    def test_formats_of_the_system(self):
        text = "processor : 0\nmodel name\t: A CPU @ 2 GHz\nflags\t\t: fma avx2 avx512f avx512bw avx512vl avx512dq\n"
        self.assertEqual(machine.model(text), "A CPU @ 2 GHz")
        self.assertEqual(machine.levels(text), ["avx512", "avx2"])
        self.assertEqual(machine.levels("flags : fma avx2\n"), ["avx2"])
        self.assertEqual(machine.levels(""), ["portable"])
        self.assertEqual([machine.size(s) for s in ("48K\n", "2M", "64")], [49152, 2097152, 64])

    def test_limits_are_the_greatest_that_were_seen(self):
        row = {"isa": "avx2"}
        self.assertEqual(machine.raised(row, {}), row)
        first = machine.raised(row, {"gflops": 90.0, "gbs": {"l1": 100, "dram": 9}})
        second = machine.raised(first, {"gflops": 80.0, "gbs": {"l1": 120, "dram": 8}})
        self.assertEqual(second, row | {"gflops": 90.0, "gbs": {"l1": 120, "dram": 9}})

    def test_caches(self):
        with tempfile.TemporaryDirectory() as folder:
            for i, (level, kind, size) in enumerate(((1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "2048K"))):
                os.mkdir(os.path.join(folder, f"index{i}"))
                for name, value in (("level", level), ("type", kind), ("size", size)):
                    with open(os.path.join(folder, f"index{i}", name), "w") as out:
                        print(value, file=out)
            self.assertEqual(machine.caches(folder), (49152, 2 << 20, 16 << 20))


PROGRAM = """
import json, sys
print(json.dumps({"framework": "fake", "version": "1", "mode": "eager"}), flush=True)
for line in sys.stdin:
    name = json.loads(line)["workload"]
    if name == "dies":
        sys.exit("out of memory")
    print(json.dumps({"note": "n/a: no"} if name == "none" else {"median_us": 1.5}), flush=True)
"""


class Programs(unittest.TestCase):
    def test_a_peer_answers_and_is_started_again_when_it_died(self):
        with tempfile.TemporaryDirectory() as folder:
            peer = Peer("fake", [sys.executable, "-c", PROGRAM], {}, os.path.join(folder, "log.txt"))
            self.addCleanup(peer.stop)
            ask = lambda name: peer.measure(name, True)[0]
            self.assertEqual(ask("w1.add")[0]["framework"], "fake")
            self.assertEqual(ask("none")[1], {"note": "n/a: no"})
            note = ask("dies")[1]["note"]
            self.assertIn("status 1: out of memory", note)
            # no second try in the rounds that follow
            self.assertEqual(ask("dies")[1]["note"], note)
            self.assertEqual(ask("w1.add")[1]["median_us"], 1.5)

    def test_what_is_not_installed_has_a_reason(self):
        self.assertEqual(installed.packages("/nowhere/python"), [])
        have = installed.interpreters()
        self.assertIn(sys.executable, have)


class Suite(unittest.TestCase):
    def test_names_are_those_of_the_command_line(self):
        with open(os.path.join(installed.HERE, "../../cli/src/workloads/tests.rs")) as text:
            names = text.read().split('let expected = "')[1].split('"')[0].replace("\\", " ").split()
        self.assertEqual(NAMES, names)

    def test_the_rule_of_the_numbers(self):
        try:
            sys.path.insert(0, installed.PYTHON)
            import suite
        except ImportError:
            self.skipTest("numpy is not installed")
        finally:
            sys.path.remove(installed.PYTHON)
        self.assertEqual([int(u * 2**24) for u in suite.unit("w1.a", 3)], [6962885, 482356, 761611])
        self.assertEqual(suite.ids("w6.tok", (4,), 0, 600).tolist(), [420, 259, 243, 583])
        self.assertEqual(suite.check([1.0, -2.0])[:3], [2, -1.0, 3.0])


if __name__ == "__main__":
    unittest.main()
