package seccomp

// Argument values of Linux's interface, as numbers: the package also compiles where package unix has none of them.
const (
	cloneNewMask = 0x7e020000 // NEWNS|NEWCGROUP|NEWUTS|NEWIPC|NEWUSER|NEWPID|NEWNET; NEWTIME cannot be asked of clone
	cloneParent  = 0x00008000

	afUnix      = 1
	afInet      = 2
	afInet6     = 10
	afNetlink   = 16
	sockTypes   = 0xf // SOCK_TYPE_MASK; above it SOCK_NONBLOCK and SOCK_CLOEXEC
	sockStream  = 1
	sockDgram   = 2
	protoTCP    = 6
	protoUDP    = 17
	nlRoute     = 0
	msgFastopen = 0x20000000

	solTCP                 = 6
	tcpFastopenConnect     = 30
	tcpULP                 = 31
	prioProcess            = 0
	ioprioWhoProcess       = 1
	modeDevice             = 0x2000 // the bit that S_IFCHR (0x2000) and S_IFBLK (0x6000) share; S_IFLNK has it too and mknod refuses that itself
	personalityQuery       = 0xffffffff
	personalityNoRandom    = 0x0040000
	tiocsti                = 0x5412
	tioclinux              = 0x541c
	tioccons               = 0x541d
	tiocsetd               = 0x5423
	fsIocSetflags          = 0x40086602
	fsIoc32Setflags        = 0x40046602
	fsIocSetversion        = 0x40087602
	fsIoc32Setversion      = 0x40047602
	ext4IocSetversionOld   = 0x40086604
	ext4Ioc32SetversionOld = 0x40046604
	fsIocFssetxattr        = 0x401c5820
)
