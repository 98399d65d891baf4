"""Reads grammar.json: a recogniser and a sampler. Needs numpy for the sampler only.

The recogniser is the textbook one for a grammar without left recursion: `ends(category, i)` is the set of positions
where that category can end if it starts at word i, memoised. The Rust side (models/src/grammar.rs) does the
same with bit masks.
"""

import json
import random
from pathlib import Path


class Grammar:
    def __init__(self, path=Path(__file__).parent / "grammar.json"):
        data = json.loads(Path(path).read_text())
        self.version, self.start, self.max_tokens = data["version"], data["start"], data["max_tokens"]
        self.tokens, self.bos, self.end = data["tokens"], data["bos"], data["end"]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.lexicon = {c: frozenset(ws) for c, ws in data["lexicon"].items()}
        self.words = data["lexicon"]  # in the file's order, which sampling must not lose
        self.rules = {
            left: [(weight, right.split()) for weight, right in alternatives]
            for left, alternatives in data["rules"].items()
        }
        self.verify()

    def verify(self):
        """Every category is defined once and reached from the start, nothing is left-recursive, every word has an id."""
        assert len(self.ids) == len(self.tokens), "a token is listed twice"
        assert not self.rules.keys() & self.lexicon.keys(), "a category is both a rule and a word list"
        used = {w for ws in self.lexicon.values() for w in ws}
        assert used == set(self.tokens) - {self.bos}, used ^ set(self.tokens)
        reached, todo = set(), [self.start]
        while todo:
            c = todo.pop()
            if c in reached:
                continue
            reached.add(c)
            assert c in self.rules or c in self.lexicon, f"category {c} is not defined"
            todo += [r for _, right in self.rules.get(c, []) for r in right]
        lost = (self.rules.keys() | self.lexicon.keys()) - reached
        assert not lost, f"never used: {sorted(lost)}"
        done = set()

        def leftmost(c, path):
            assert c not in path, f"left recursion: {path + [c]}"
            if c not in done:
                for _, right in self.rules.get(c, []):
                    leftmost(right[0], path + [c])
                done.add(c)

        leftmost(self.start, [])

    def accepts(self, words):
        """Is this, "." included, a sentence of at most max_tokens tokens?"""
        if not 0 < len(words) <= self.max_tokens:
            return False
        memo = {}

        def ends(category, i):
            if (category, i) in memo:
                return memo[category, i]
            found = set()
            if category in self.lexicon:
                if i < len(words) and words[i] in self.lexicon[category]:
                    found.add(i + 1)
            else:
                for _, right in self.rules[category]:
                    at = {i}
                    for c in right:
                        at = set().union(*(ends(c, j) for j in at))
                    found |= at
            memo[category, i] = found
            return found

        return len(words) in ends(self.start, 0)

    def probability(self, words):
        """How likely the sampler is to draw these words (but for the few too long ones it draws again)."""
        memo = {}

        def inside(category, i):
            """For every position where the category can end: the probability of the words up to there."""
            if (category, i) not in memo:
                found = {}
                if category in self.lexicon:
                    if i < len(words) and words[i] in self.lexicon[category]:
                        found[i + 1] = 1 / len(self.words[category])
                else:
                    total = sum(weight for weight, _ in self.rules[category])
                    for weight, right in self.rules[category]:
                        at = {i: weight / total}
                        for c in right:
                            reached = {}
                            for j, p in at.items():
                                for k, q in inside(c, j).items():
                                    reached[k] = reached.get(k, 0) + p * q
                            at = reached
                        for k, p in at.items():
                            found[k] = found.get(k, 0) + p
                memo[category, i] = found
            return memo[category, i]

        return inside(self.start, 0).get(len(words), 0.0)

    def template(self, rng: random.Random):
        """The terminal categories of one random sentence that is not too long."""
        while True:
            out, stack = [], [self.start]
            while stack and len(out) <= self.max_tokens:
                c = stack.pop()
                if c in self.lexicon:
                    out.append(c)
                else:
                    alternatives = self.rules[c]
                    [(_, right)] = rng.choices(alternatives, [w for w, _ in alternatives])
                    stack += reversed(right)
            if not stack and len(out) <= self.max_tokens:
                return out

    def text(self, words):
        """Words as a line of text: capital first, no space before "." and ","."""
        line = "".join(w if w in (self.end, ",") else " " + w for w in words).strip()
        return line[:1].upper() + line[1:]
