"""python -m rope_profiler_hf.tasks: rope-tasks."""

import sys

from rope_profiler_hf.tasks.cli import main

if __name__ == "__main__":
    sys.exit(main())
