"""Random choices that are the same in every version of Python: all stand on random.Random.random alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Draw:
    """A stream of choices; the same `seed` text gives the same stream."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def fraction(self) -> float:
        """Uniform in [0, 1)."""
        return self._random.random()

    def below(self, limit: int) -> int:
        """Uniform in 0 … limit − 1."""
        return int(self._random.random() * limit)

    def between(self, low: int, high: int) -> int:
        """Uniform in low … high."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different places of `items`, in random order."""
        if count > len(items):
            raise ValueError(f"{count} asked of {len(items)}")
        left = list(items)
        for i in range(count):
            j = i + self.below(len(left) - i)
            left[i], left[j] = left[j], left[i]
        return left[:count]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        return self.sample(items, len(items))

    def number(self, digits: int = 4) -> str:
        """A number of that many digits without a leading zero."""
        return str(self.between(10 ** (digits - 1), 10**digits - 1))

    def numbers(self, count: int, digits: int = 4) -> list[str]:
        """Different numbers."""
        found: dict[str, None] = {}
        while len(found) < count:
            found[self.number(digits)] = None
        return list(found)
