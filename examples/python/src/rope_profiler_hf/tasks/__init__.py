"""Synthetic long-context tasks with checkable answers: seeded, of any length, on public-domain filler."""

from rope_profiler_hf.tasks import lists, lookup, needles
from rope_profiler_hf.tasks.base import Example, Task

TASKS: dict[str, Task] = {task.name: task for task in (*needles.TASKS, *lookup.TASKS, *lists.TASKS)}

__all__ = ["TASKS", "Example", "Task"]
