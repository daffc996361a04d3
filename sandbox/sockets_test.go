package sandbox

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// listen binds a Unix socket for the test's life.
func listen(t *testing.T, name string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	}
	if err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		t.Fatalf("listen on %s: %v", name, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
}

// K-023, soundness 11: path sockets are closed but the named ones; connect goes
// through a read-only mount, so a socket that somebody put into a granted
// directory answers unless Landlock resolves it (ABI 9), and the plan says so.
func TestPathSockets(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "closed/", "granted/", "named/")
		tmp := treeIn(t, "/tmp")
		for _, s := range []string{d + "/closed/s", d + "/granted/s", d + "/named/s", d + "/named/other", tmp + "/s"} {
			listen(t, s)
		}
		p := grants("r " + d + "/granted")
		p.Net.Unix = []string{d + "/named/s"}
		s := &setup{profile: p}
		h, err := Probe()
		if err != nil {
			t.Fatal(err)
		}
		inGranted := yes("connect-path", d+"/granted/s")
		if h.LandlockABI >= 9 {
			inGranted = no(errs(unix.EACCES), "connect-path", d+"/granted/s")
		}
		o := check(t, s, []row{
			no(errs(unix.ENOENT), "connect-path", d+"/closed/s"),
			no(errs(unix.ENOENT), "connect-path", d+"/named/other"),
			no(errs(unix.ENOENT), "connect-path", tmp+"/s"),
			no(errs(unix.ENOENT), "connect-path", "/proc/self/root"+d+"/closed/s"),
			yes("connect-path", d+"/named/s"),
			inGranted,
		})
		if l := o.plan.layer("unix"); h.LandlockABI < 9 && !strings.Contains(l.Note, "granted directory") {
			t.Errorf("the plan does not say that sockets in a granted directory answer: %+v", *l)
		}
	})
}

// K-023: a socket path that the profile names must be one.
func TestNamedSocketMustBeASocket(t *testing.T) {
	d := tree(t, "file")
	p := grants()
	p.Net.Unix = []string{d + "/file"}
	if _, err := start(t, &setup{profile: p}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("%v", err)
	}
}

// K-023: abstract sockets of others are closed, the run's own work.
func TestAbstractSockets(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "w/")
		name := "lockbox-test-" + filepath.Base(d)
		listen(t, "@"+name)
		check(t, &setup{profile: grants("rw " + d + "/w")}, []row{
			no(errs(unix.EPERM, unix.ECONNREFUSED), "connect-abstract", name),
			yes("own-path-socket", "@"+name+"-own"),
			yes("own-path-socket", "/tmp/s"),
			yes("own-path-socket", d+"/w/s"),
		})
	})
}

// The socket families that a run may ask for; the others are refused before any
// module loads. The seccomp package tests the whole table.
func TestSocketFamilies(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		ask := func(n ...int) []string {
			var s []string
			for _, v := range n {
				s = append(s, strconv.Itoa(v))
			}
			return s
		}
		rows := []row{
			yes("socket", ask(unix.AF_UNIX, unix.SOCK_STREAM, 0)...),
			yes("socket", ask(unix.AF_INET, unix.SOCK_STREAM, 0)...),
			yes("socket", ask(unix.AF_INET6, unix.SOCK_DGRAM, 0)...),
			yes("socket", ask(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)...),
			yes("own-loopback"),
		}
		for _, bad := range [][]string{ask(unix.AF_VSOCK, unix.SOCK_STREAM, 0), ask(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
			ask(unix.AF_PACKET, unix.SOCK_RAW, 0), ask(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), ask(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)} {
			a := confine(t, &setup{profile: grants()}, do("socket", bad...)).answers[0]
			judge(t, "inside", no(errs(unix.EPERM), "socket", bad...), a)
		}
		check(t, &setup{profile: grants()}, rows)
		// The controls that every host and user has.
		for i, a := range unconfined(t, do("socket", ask(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)...), do("own-loopback")) {
			if a.Errno != 0 {
				t.Error(fmt.Sprint("control ", i, ": "), a.Errno)
			}
		}
	})
}

// Soundness 26: net none is ENETUNREACH outward, with the run's loopback up, and
// a server on the host's loopback is not there.
func TestNetNone(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
		}
		if err == nil {
			err = unix.Listen(fd, 8)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		sa, _ := unix.Getsockname(fd)
		port := strconv.Itoa(sa.(*unix.SockaddrInet4).Port)
		// Non-blocking: what nobody answers is refused later, so UDP's and TCP's way out is asked for.
		o := confine(t, &setup{profile: grants()}, do("connect", "tcp", "192.0.2.1", "80"), do("connect", "udp", "192.0.2.1", "53"), do("connect", "tcp", "2001:db8::1", "80"), do("own-loopback"))
		for i, want := range []error{unix.ENETUNREACH, unix.ENETUNREACH, unix.ENETUNREACH} {
			if o.answers[i].Errno != want {
				t.Errorf("%d: %v, want %v", i, o.answers[i].Errno, want)
			}
		}
		if o.answers[3].Errno != 0 {
			t.Errorf("own loopback: %v", o.answers[3].Errno)
		}
		check(t, &setup{profile: grants()}, []row{no(errs(unix.ECONNREFUSED), "connect-wait", "127.0.0.1", port)})
	})
}
