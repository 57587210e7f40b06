"""`python -m refactor_graph` is the command `refactor-graph`."""

import sys

from refactor_graph.cli import main

sys.exit(main())
