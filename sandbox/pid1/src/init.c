/*
 * PID 1 of a run's pid namespace. It starts the command, passes signals on,
 * reaps what the command leaves behind, tells the supervisor how the command
 * ended, and exits; the kernel then kills every process of the namespace.
 *
 *   lockbox-init STATUSFD PATH ARGV0 [ARG...]
 *
 * STATUSFD gets one record of two 32-bit words: {1, errno} when the command
 * could not be executed, {2, wait status} when it ended. No libc: the program is
 * a few hundred bytes, embedded in lockbox and executed from a memfd. It runs
 * under the run's own Landlock domain and seccomp filter.
 */

typedef unsigned long u64;
typedef unsigned int u32;

#if defined(__x86_64__)
enum { NR_write = 1, NR_execve = 59, NR_exit_group = 231, NR_wait4 = 61, NR_kill = 62, NR_clone = 56,
       NR_fcntl = 72, NR_rt_sigprocmask = 14, NR_rt_sigtimedwait = 128 };
static long call(long n, long a, long b, long c, long d, long e)
{
	long r;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
	return r;
}
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall run\n");
#elif defined(__aarch64__)
enum { NR_write = 64, NR_execve = 221, NR_exit_group = 94, NR_wait4 = 260, NR_kill = 129, NR_clone = 220,
       NR_fcntl = 25, NR_rt_sigprocmask = 135, NR_rt_sigtimedwait = 137 };
static long call(long n, long a, long b, long c, long d, long e)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
	return x0;
}
__asm__(".globl _start\n_start:\n\tmov x29, #0\n\tmov x0, sp\n\tbl run\n");
#else
#error "no system call convention for this architecture"
#endif

enum { SIG_SETMASK = 2, SIGCHLD = 17, WNOHANG = 1, F_SETFD = 2, FD_CLOEXEC = 1 };

/* siginfo_t, as far as it is read: signo, errno, code (asm-generic/siginfo.h). */
struct info {
	int signo, err, code;
	int rest[29];
};

static void tell(long fd, u32 what, u32 value)
{
	u32 rec[2] = { what, value };
	call(NR_write, fd, (long)rec, sizeof rec, 0, 0);
}

__attribute__((noreturn)) static void end(long code)
{
	for (;;)
		call(NR_exit_group, code, 0, 0, 0, 0);
}

__attribute__((used, noreturn)) void run(u64 *stack)
{
	char **argv = (char **)(stack + 1);
	char **envp = argv + stack[0] + 1;
	long fd = 0;
	u64 all = ~0UL, old = 0;
	struct info si;

	if (stack[0] < 4)
		end(125);
	for (char *s = argv[1]; *s; s++)
		fd = fd * 10 + (*s - '0');

	call(NR_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, sizeof all, 0);
	long child = call(NR_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		call(NR_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, sizeof old, 0);
		call(NR_fcntl, fd, F_SETFD, FD_CLOEXEC, 0, 0);
		long e = call(NR_execve, (long)argv[2], (long)(argv + 3), (long)envp, 0, 0);
		tell(fd, 1, (u32)-e);
		end(127);
	}
	if (child < 0) {
		tell(fd, 1, (u32)-child);
		end(125);
	}
	for (;;) {
		if (call(NR_rt_sigtimedwait, (long)&all, (long)&si, 0, sizeof all, 0) < 0)
			continue;
		if (si.signo != SIGCHLD) {
			/* What a terminal sends (code > 0) reaches the command itself. */
			if (si.code <= 0)
				call(NR_kill, child, si.signo, 0, 0, 0);
			continue;
		}
		for (;;) {
			u32 status = 0;
			long pid = call(NR_wait4, -1, (long)&status, WNOHANG, 0, 0);
			if (pid <= 0)
				break;
			if (pid != child)
				continue;
			tell(fd, 2, status);
			end((status & 0x7f) ? 128 + (status & 0x7f) : (status >> 8) & 0xff);
		}
	}
}
