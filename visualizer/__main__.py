"""`python -m visualizer`: the same as the command `flashscope`."""

import sys

from visualizer.cli import main

sys.exit(main())
