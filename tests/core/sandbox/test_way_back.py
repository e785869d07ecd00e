"""Code that spoils the way on which its results come back; the fixture then asks for a next step."""

import pytest

from openenv.core.sandbox import Sandbox

pytestmark = pytest.mark.needs("sandbox")

SPOILS = [
    "import os\nfor n in range(3, 64):\n    try: os.write(n, os.urandom(100_000))\n    except OSError: pass",
    "import os\nfor n in range(3, 64):\n    try: os.write(n, b'x')\n    except OSError: pass",
    "import os\nos.closerange(0, 64)",
    "import os\nos.closerange(3, 64)",
    "import os, struct\nos.write(4, struct.pack('!IiI', 1, 0, 1))",
    "import os, struct\nos.write(4, struct.pack('!IiI', 1, 0, 4_000_000_000))",
    "import os, struct\nos.write(4, struct.pack('!IiI', 1, -5, os.getpid()))",
    "import sys\nsys.stdout.close(); sys.stderr.close()",
    "import sys\nsys.stdout = sys.stderr = None",
    "import os, sys\nsys.modules.clear()",
    "import os\nos.fork = os._exit = os.write = os.read = None",
    "import builtins\nbuiltins.__dict__.clear()",
    "import os\nif os.fork() == 0:\n    print('child')\nelse:\n    os.wait()",
    "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    "import sys\nsys.settrace(lambda *a: 1/0)",
    "import gc, os\nfor o in gc.get_objects():\n    if type(o).__name__ == 'Interpreter': o.__dict__.clear()",
    "raise SystemExit(10**400)",
    "raise SystemExit('\\ud800')",
    "class E(BaseException):\n    def __str__(self): raise E()\nraise E()",
    "class E(BaseException):\n    def __str__(self):\n        import os; os.abort()\nraise E()",
]


def test_the_way_back_can_be_spoiled_for_itself_alone(sandbox: Sandbox) -> None:
    sandbox.write_file("kept", "kept")
    for code in SPOILS:
        assert not sandbox.python(code, wall_s=1).files_lost, code
        if sandbox.python("print(1)").interpreter_lost:  # what it has left behind may show only now
            assert sandbox.python("print(1)").stdout == "1\n", code
    assert sandbox.read_file("kept") == b"kept"


def test_a_result_from_the_step_before_is_none(sandbox: Sandbox) -> None:
    """A reply that was written early ends the step, and what goes on meanwhile is ended with it."""
    code = """
import os, struct, time
os.write(4, struct.pack("!IiI", 1, 0, os.getpid()))
time.sleep(0.2)
open("/work/late", "w").close()
"""
    assert sandbox.python(code).exit_code == 0
    execution = sandbox.python("print('second')")
    assert execution.interpreter_lost
    assert sandbox.python("print('third')").stdout == "third\n"
