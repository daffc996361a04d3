package sandbox

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// soundness 8: only pipes, terminals, files, /dev/null and unnamed sockets are
// handed to a run.
func TestStandardDescriptors(t *testing.T) {
	everyTier(t, func(t *testing.T) {
		d := tree(t, "file")
		open := func(p string, flags int) *os.File {
			fd, err := unix.Open(p, flags|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			return os.NewFile(uintptr(fd), p)
		}
		socket := func(domain, kind int) *os.File {
			fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			return os.NewFile(uintptr(fd), "socket")
		}
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[1])
		rows := []struct {
			name string
			file *os.File
			want string // "" is accepted
		}{
			{"file", open(d+"/file", unix.O_RDWR), ""},
			{"/dev/null", open("/dev/null", unix.O_RDWR), ""},
			{"socketpair", os.NewFile(uintptr(pair[0]), "pair"), ""},
			{"inet socket", socket(unix.AF_INET, unix.SOCK_STREAM), "network socket"},
			{"inet6 datagram socket", socket(unix.AF_INET6, unix.SOCK_DGRAM), "network socket"},
			{"netlink socket", socket(unix.AF_NETLINK, unix.SOCK_RAW), "network socket"},
			{"directory", open(d, unix.O_RDONLY|unix.O_DIRECTORY), "directory"},
			{"O_PATH file", open(d+"/file", unix.O_PATH), "O_PATH"},
			{"O_PATH directory", open(d, unix.O_PATH), "directory"},
		}
		if os.Geteuid() == 0 { // only root can make one
			block := d + "/block"
			if err := unix.Mknod(block, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, struct {
				name string
				file *os.File
				want string
			}{"block device", open(block, unix.O_PATH), "block device"})
		}
		for _, r := range rows {
			for i, name := range []string{"stdin", "stdout", "stderr"} {
				so := StartOptions{}
				*[]**os.File{&so.Stdin, &so.Stdout, &so.Stderr}[i] = r.file
				o, err := start(t, &setup{profile: grants(), options: quietly(), start: so})
				switch {
				case r.want == "" && (err != nil || o.exit.Code != 0 || o.exit.ExecErrno != 0):
					t.Errorf("%s as %s: %v", r.name, name, err)
				case r.want != "" && (err == nil || !strings.Contains(err.Error(), name+" is") || !strings.Contains(err.Error(), r.want)):
					t.Errorf("%s as %s: %v, want an error with %q", r.name, name, err, r.want)
				}
			}
			r.file.Close()
		}
	})
}

// The three descriptors may stand in any order in the caller.
func TestDescriptorsInAnyOrder(t *testing.T) {
	d := tree(t, "in")
	out, err := os.Create(d + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in, err := os.Open(d + "/in")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	o, err := start(t, &setup{profile: system(), options: Options{Path: "/bin/sh", Argv: []string{"sh", "-c", "cat; echo err >&2"}, Env: []string{"PATH=/bin:/usr/bin"}},
		start: StartOptions{Stdin: in, Stdout: out, Stderr: out}})
	if err != nil || o.exit.Code != 0 {
		t.Fatalf("%v %+v", err, o)
	}
	b, _ := os.ReadFile(d + "/out")
	if string(b) != "inerr\n" {
		t.Errorf("output %q", b)
	}
}
