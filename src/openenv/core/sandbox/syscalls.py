"""The system calls that code in a sandbox may make; any other is answered as if the kernel did not have it.

Left out on purpose: what looks into other processes (ptrace, process_vm_readv, pidfd_getfd, kcmp), namespaces and
mounts (unshare, setns, mount, pivot_root, fsopen, ...), the kernel's own machinery (bpf, perf_event_open,
io_uring_setup, userfaultfd, keyctl, init_module, ...), and memory that counts for no process (memfd_create, shmget,
msgget, semget).
"""

_NAMES = """
_llseek _newselect accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown
clock_getres clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2
dup3 epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait
epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr
flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait
futex_waitv futex_wake futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64
getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority
getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday
getuid getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch kill lchown lgetxattr
link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise membarrier
mincore mkdir mkdirat mknod mknodat mlock mmap mprotect mremap mseal msync munlock munmap nanosleep
newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free
pkey_mprotect poll ppoll prctl pread64 preadv preadv2 pselect6 pwrite64 pwritev pwritev2 read
readahead readlink readlinkat readv recvfrom recvmmsg recvmsg removexattr rename renameat renameat2
restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min
sched_getaffinity sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval
sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield select sendfile
sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid
setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid
setsockopt setuid setxattr shutdown sigaltstack socketpair splice stat statfs statx symlink
symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete
timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times
tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork wait4 waitid write writev
"""

ALLOWED = tuple(_NAMES.split())
"""Allowed with any arguments. Each architecture has most of them; ``seccomp`` leaves out the others."""
