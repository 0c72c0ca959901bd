"""Script that runs a foreign program which dies with us.

`python -I run_with_parent.py PARENT_PID USER PROGRAM [ARGUMENT…]`, where an empty USER is who we are. The user changes
here, not before: it need not be able to read this script or the interpreter.
"""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sandbox.parent_death import die_with_parent


def main() -> None:
    parent, user, program, *arguments = sys.argv[1:]
    if user:
        entry = pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    die_with_parent(int(parent))  # after the change of user, which clears it
    os.execvp(program, [program, *arguments])  # noqa: S606  (exec keeps PDEATHSIG; a shell would not)


if __name__ == "__main__":
    main()
