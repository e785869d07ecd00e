"""Code that tries to get out of its sandbox; the fixture then asks for a next step."""

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.sandbox.attacks import SYSCALL, attempt

from openenv.core.exceptions import SandboxFileError
from openenv.core.sandbox import Sandbox, SandboxLimits

pytestmark = pytest.mark.needs("sandbox")

REPOSITORY = Path(__file__).parents[3]


# --- Files -----------------------------------------------------------------------------------------------------------


def test_no_file_of_the_machine_is_there(sandbox: Sandbox) -> None:
    folders = ["/root", "/home", "/var", "/opt", "/srv", "/mnt", "/run", "/boot", "/sys", "/usr/local", "/usr/src"]
    code = f"""
import os
for path in {[*folders, str(REPOSITORY)]!r}:
    tried(path, lambda: [name for name in os.listdir(path) if not name.startswith(".pyenv")])
"""
    assert [
        line for line in attempt(sandbox, code) if not line.endswith(("FileNotFoundError", "PermissionError", ": []"))
    ] == []


def test_the_machines_accounts_are_not_there(sandbox: Sandbox) -> None:
    lines = attempt(
        sandbox,
        """
tried("passwd", lambda: len(open("/etc/passwd").readlines()))
tried("shadow", lambda: open("/etc/shadow").read())
tried("hostname", lambda: __import__("socket").gethostname())
""",
    )
    assert lines == ["passwd: 1", "shadow: FileNotFoundError", "hostname: sandbox"]


def test_nothing_can_be_written_but_its_own_disk(sandbox: Sandbox, tmp_path: Path) -> None:
    outside = tmp_path / "here"
    folders = ["/", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/etc", "/dev", "/proc", "/packages", "/init"]
    files = ["/etc/passwd", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/mem", str(outside)]
    code = f"""
import os
for path in {[f"{folder}/x" for folder in folders] + files!r}:
    tried(path, lambda: open(path, "w").write("x"))
for path in [os.__file__, os.sys.executable]:
    tried(path, lambda: os.open(path, os.O_RDWR))
tried("work", lambda: open("/work/x", "w").write("x"))
tried("tmp", lambda: open("/tmp/x", "w").write("x"))
"""
    outcomes = dict(line.rsplit(": ", 1) for line in attempt(sandbox, code))
    assert [outcomes.pop("work"), outcomes.pop("tmp")] == ["1", "1"]
    assert set(outcomes.values()) <= {"OSError", "PermissionError", "FileNotFoundError"}
    assert not outside.exists()


def test_a_link_out_of_the_work_folder_leads_nowhere(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    sandbox.shell(
        f"ln -s {secret} file; ln -s {tmp_path} folder; ln -s / root; ln -s /proc/self/environ self; mkdir real;"
        "ln -s ../real real/back; ln -s /dev/zero zero; mkfifo pipe"
    )
    for path in [
        "file",
        "folder/secret",
        "root/etc/passwd",
        "self",
        "real/back/x",
        "pipe",
        "zero",
        "../etc/passwd",
        "/etc/passwd",
    ]:
        with pytest.raises(SandboxFileError) as refused:
            sandbox.read_file(path)
        assert path in str(refused.value)
        with pytest.raises(SandboxFileError):
            sandbox.write_file(path, "x")
    assert secret.read_text() == "secret"
    assert sandbox.shell("cat file folder/secret").exit_code != 0


def test_a_path_that_is_none_is_refused(sandbox: Sandbox) -> None:
    for path in ["", ".", "..", "a/../../b", "a//b", "/work/a", "a/", "./a", "a\0b", "x" * 300, "a/" * 3000 + "b"]:
        with pytest.raises(SandboxFileError):
            sandbox.write_file(path, "x")
        with pytest.raises(SandboxFileError):
            sandbox.read_file(path)


# --- The network -----------------------------------------------------------------------------------------------------


def test_no_socket_of_the_machine_can_be_reached(sandbox: Sandbox, tmp_path: Path) -> None:
    with ExitStack() as sockets:
        tcp = sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0)
        tcp.settimeout(0)
        unix = sockets.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(tmp_path / "socket"))
        unix.listen()
        abstract = sockets.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0openenv-escape-{os.getpid()}")
        abstract.listen()
        code = f"""
from socket import *
tried("tcp", lambda: create_connection({tcp.getsockname()!r}, 1))
tried("elsewhere", lambda: create_connection(("192.0.2.1", 80), 1))
tried("udp", lambda: socket(AF_INET, SOCK_DGRAM).sendto(b"x", {udp.getsockname()!r}) and None)
tried("udp elsewhere", lambda: socket(AF_INET, SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
tried("unix", lambda: socket(AF_UNIX).connect({str(tmp_path / "socket")!r}))
tried("abstract", lambda: socket(AF_UNIX).connect({abstract.getsockname().decode()!r}))
tried("name", lambda: getaddrinfo("example.org", 80))
tried("raw", lambda: socket(AF_INET, SOCK_RAW, IPPROTO_ICMP))
tried("packet", lambda: socket(AF_PACKET, SOCK_RAW))
tried("netlink", lambda: socket(AF_NETLINK, SOCK_RAW))
tried("vsock", lambda: socket(AF_VSOCK, SOCK_STREAM))
tried("alg", lambda: socket(AF_ALG, SOCK_SEQPACKET))
"""
        lines = attempt(sandbox, code)
        assert lines == [
            "tcp: ConnectionRefusedError",
            "elsewhere: OSError",
            "udp: None",
            "udp elsewhere: OSError",
            "unix: FileNotFoundError",
            "abstract: ConnectionRefusedError",
            "name: gaierror",
            "raw: PermissionError",
            "packet: OSError",
            "netlink: OSError",
            "vsock: OSError",
            "alg: OSError",
        ]
        for listener in (tcp, udp):
            with pytest.raises(BlockingIOError):
                listener.recv(1) if listener is udp else listener.accept()


# --- The kernel ------------------------------------------------------------------------------------------------------


CALLS = [
    ("ptrace", "16, os.getppid(), 0, 0"),
    ("process_vm_readv", "1, 0, 0, 0, 0, 0"),
    ("mount", "b'none', b'/work', b'tmpfs', 0, 0"),
    ("umount2", "b'/usr/local', 2"),
    ("pivot_root", "b'/work', b'/work'"),
    ("chroot", "b'/work'"),
    ("unshare", "0x10000000"),
    ("setns", "0, 0"),
    ("clone", "0x10000000 | 17, 0, 0, 0, 0"),
    ("clone3", "0, 0"),
    ("keyctl", "0, 0"),
    ("add_key", "b'user', b'a', b'b', 1, -3"),
    ("bpf", "0, 0, 0"),
    ("perf_event_open", "0, 0, 0, 0, 0"),
    ("userfaultfd", "0"),
    ("io_uring_setup", "1, 0"),
    ("memfd_create", "b'x', 0"),
    ("shmget", "0, 1 << 30, 0o1600"),
    ("open_by_handle_at", "0, 0, 0"),
    ("kexec_load", "0, 0, 0, 0"),
    ("init_module", "0, 0, 0"),
    ("reboot", "0xfee1dead, 0x28121969, 0, 0"),
    ("pidfd_getfd", "3, 0, 0"),
    ("prlimit64", "1, 7, ctypes.byref(ctypes.create_string_buffer(16)), 0"),
    ("personality", "0x0040000"),
]


def test_calls_that_reach_into_the_kernel_are_refused(sandbox: Sandbox) -> None:
    attempts = [f"tried({call!r}, lambda: syscall({call!r}, {arguments}))" for call, arguments in CALLS]
    assert attempt(sandbox, SYSCALL + "\n".join(attempts)) == [f"{call}: ENOSYS" for call, _ in CALLS]


def test_no_terminal_can_be_typed_into(sandbox: Sandbox) -> None:
    """Nor with bits above the 32 that the kernel looks at."""
    lines = attempt(
        sandbox,
        SYSCALL
        + """
for request in (0x5412, 0x541C, 0x5412 | 1 << 40):
    tried(hex(request), lambda: syscall("ioctl", 0, ctypes.c_ulong(request), b"x"))
tried("tty", lambda: open("/dev/tty"))
""",
    )
    assert [line.split(": ")[1] for line in lines] == ["EPERM", "EPERM", "EPERM", "FileNotFoundError"]


def test_there_are_no_capabilities_and_none_can_be_had(sandbox: Sandbox) -> None:
    lines = attempt(
        sandbox,
        """
import os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(*(status[name] for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp")), os.getuid())
tried("root", lambda: os.setuid(0))
tried("chown", lambda: os.chown("/work", 0, 0))
""",
    )
    assert lines == [
        "0" * 16 + " " + " ".join(["0" * 16] * 3) + " 1 2 1000",
        "root: PermissionError",
        "chown: PermissionError",
    ]
    assert "uid=0" not in sandbox.shell("su -c id; sudo id; echo").stdout


# --- Other processes -------------------------------------------------------------------------------------------------


def test_no_process_outside_is_seen_and_the_first_one_is_closed(sandbox: Sandbox) -> None:
    lines = attempt(
        sandbox,
        """
import os
print(sorted(name for name in os.listdir("/proc") if name.isdecimal()) == sorted({"1", str(os.getpid())}))
for name in ["environ", "mem", "maps", "root", "cwd", "exe", "fd", "fd/0", "task/1/mem"]:
    path = "/proc/1/" + name
    tried(name, lambda: os.listdir(path) if name in ("root", "cwd", "fd") else open(path, "rb").read(1))
tried("own", lambda: sorted(os.listdir("/proc/self/fd"))[:3])
""",
    )
    assert lines[0] == "True"
    assert lines[-1] == "own: ['0', '1', '2']"
    assert [line for line in lines[1:-1] if not line.endswith("PermissionError")] == []


def test_variables_of_the_server_are_not_there(limits: SandboxLimits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "a-secret-of-the-server")
    with Sandbox(limits) as sandbox:
        shown = sandbox.shell("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'").stdout
        shown += sandbox.python("import os; print(dict(os.environ))").stdout
    assert "HOME=/work" in shown
    assert "a-secret" not in shown


def test_signals_reach_nobody_else(sandbox: Sandbox) -> None:
    lines = attempt(
        sandbox,
        f"""
import os, signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGKILL, signal.SIGSEGV):
    os.kill(1, number)
tried("server", lambda: os.kill({os.getpid()}, 0))
""",
    )
    assert lines == ["server: ProcessLookupError"]


def test_killing_all_that_can_be_killed_ends_the_code_alone(sandbox: Sandbox) -> None:
    execution = sandbox.shell("kill -9 -1; echo alone")
    assert execution.stdout == "alone\n"
    assert execution.interpreter_lost
    assert not execution.files_lost
    execution = sandbox.python("import os, signal\nif os.fork() == 0: os.kill(-1, signal.SIGKILL)\nos.wait()")
    assert execution.exit_code == 137
    assert not execution.files_lost


def test_the_interpreter_can_end_itself(sandbox: Sandbox) -> None:
    for code in (
        "import os; os._exit(3)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import ctypes; ctypes.string_at(0)",
    ):
        execution = sandbox.python("x = 1\n" + code)
        assert execution.interpreter_lost
        assert not execution.files_lost
        assert execution.exit_code in (3, 137, 139)
        assert execution.stopped.startswith("The interpreter has ended itself.")
        assert sandbox.python("x").exit_code == 1


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the machine code is of x86-64")
def test_calls_by_another_door_are_no_calls(sandbox: Sandbox) -> None:
    """The kernel of x86-64 has two more tables of calls, with other numbers: for 32 bits, and x32."""
    machine_code = "b8 14 00 00 00 cd 80 c3"  # mov eax, 20 (getpid); int 0x80; ret
    by_interrupt = f"""
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex({machine_code!r}))
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    for code in (by_interrupt, "import ctypes\nctypes.CDLL(None).syscall(0x40000000 | 39)"):
        execution = sandbox.python(code)
        assert execution.exit_code == 128 + 31  # SIGSYS
        assert execution.interpreter_lost


def test_a_crash_starts_nothing_outside(sandbox: Sandbox) -> None:
    """With a limit of 1 on core files, the kernel does not start what core_pattern names; it can't be set to 0."""
    lines = attempt(
        sandbox,
        """
import resource
tried("raise", lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
print(next(line.split()[4:6] for line in open("/proc/self/limits") if line.startswith("Max core")))
""",
    )
    assert lines == ["raise: ValueError", "['1', '1']"]


def test_a_sandbox_does_not_see_another(limits: SandboxLimits) -> None:
    with Sandbox(limits) as one, Sandbox(limits) as other:
        one.shell("echo secret > /work/x; echo secret > /tmp/x; echo secret > /dev/shm/x")
        seen = other.shell("cat /work/x /tmp/x /dev/shm/x; ls -d /proc/[0-9]* | wc -l")
        assert "secret" not in seen.stdout
        assert one.shell("kill -9 -1; echo").files_lost is False
        assert other.python("print('alive')").stdout == "alive\n"
