package run

import (
	"net"
	"strings"
	"testing"

	"lockbox/test/apart"
)

// listener is a server of the host's.
func listener(t *testing.T, addr string) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// Every refused connect is counted, exactly, with the flag that would allow it,
// and that flag does. K-008, K-013, K-022, K-025
func TestDenialsExact(t *testing.T) {
	c := root(t)
	tcp := apart.Addr + ":" + listener(t, apart.Addr+":0")
	rows := []struct {
		args       []string
		op, target string
		rule       string
		n          int
		ok         string
	}{
		{[]string{"connect", tcp, "7"}, "connect", tcp, "builtin:this-host", 7, "ok"},
		{[]string{"connect", "192.0.2.33:443", "1"}, "connect", "192.0.2.33:443", "", 1, "ENETUNREACH"},
		{[]string{"connect", "169.254.169.254:80", "2"}, "connect", "169.254.169.254:80", "", 2, "ENETUNREACH"},
		{[]string{"connect", "10.1.2.3:22", "300"}, "connect", "10.1.2.3:22", "", 300, "ENETUNREACH"},
		{[]string{"connect", "[2001:db8::7]:80", "3"}, "connect", "[2001:db8::7]:80", "", 3, "ENETUNREACH"},
		{[]string{"send", apart.Addr + ":5000", "4"}, "send", apart.Addr + ":5000/udp", "builtin:this-host", 4, "ok"},
		{[]string{"send", "192.0.2.33:54", "5"}, "send", "192.0.2.33:54/udp", "", 5, "ENETUNREACH"},
		{[]string{"bind", "0.0.0.0:4321", "6"}, "bind", "0.0.0.0:4321", "", 6, "ok"},
	}
	for _, row := range rows {
		t.Run(strings.Join(row.args, " "), func(t *testing.T) {
			flags := []string{"--net", "direct"}
			r := c.told(t, flags, row.args...)
			r.want(t, 0, " EPERM")
			if len(r.receipt.Denials) != 1 || r.receipt.Lost != 0 {
				t.Fatalf("want one denial, lost none: %+v, lost %d", r.receipt.Denials, r.receipt.Lost)
			}
			d := r.receipt.Denials[0]
			if d.Kind != "net" || d.Op != row.op || d.Target != row.target || d.Count != row.n || !strings.HasPrefix(d.By, "cgroup:") || d.Rule == "" || row.rule != "" && d.Rule != row.rule || d.Exe == "" {
				t.Errorf("denial %+v", d)
			}
			if !strings.HasPrefix(d.Hint, "--") {
				t.Fatalf("hint %q", d.Hint)
			}
			again := c.told(t, append(flags, strings.Fields(d.Hint)...), row.args...)
			again.want(t, 0, " "+row.ok)
			if len(again.receipt.Denials) != 0 {
				t.Errorf("with %s: %+v", d.Hint, again.receipt.Denials)
			}
		})
	}
}

// The start's own tries are not the command's denials, and a failed command is
// told what it was denied.
func TestDenialsTold(t *testing.T) {
	c := root(t)
	// Port 53 stays shut, and no flag is named that would not help.
	r := c.told(t, []string{"--net", "direct"}, "send", "192.0.2.33:53", "2")
	if d := r.receipt.find("send", "192.0.2.33:53/udp"); d.Count != 2 || d.Hint != "" {
		t.Errorf("denials: %+v", r.receipt.Denials)
	}
	r = c.told(t, []string{"--net", "direct"}, "exit", "0")
	if len(r.receipt.Denials) != 0 {
		t.Errorf("denials of a command that did nothing: %+v", r.receipt.Denials)
	}
	x := c.command([]string{"--net", "direct"}, "/bin/sh", "-c", c.probe+" @inside connect 192.0.2.33:443 2; exit 1")
	finish(t, x, "").want(t, 1, "EPERM", "lockbox: denied: net connect 192.0.2.33:443 (2 times)\n", "hint: --allow 192.0.2.33:443\n")
}

// A run reaches its own server on loopback, and not the host's. K-008
func TestLoopback(t *testing.T) {
	port := ""
	if uid := nobodyOrSelf(); uid == nobody {
		port = listener(t, "127.0.0.1:0")
		c := root(t)
		direct := []string{"--net", "direct", "--receipt", "/dev/null"}
		c.run(t, direct, "serve").want(t, 0, "serve ok hello")
		c.run(t, direct, "connect", "127.0.0.1:"+port, "1").want(t, 0, "EPERM")
		// The control: the same server, unconfined.
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		must(t, err)
		conn.Close()
	}
	each(t, func(t *testing.T, c caller) {
		c.run(t, nil, "serve").want(t, 0, "serve ok hello")
		c.run(t, nil, "connect", "192.0.2.1:80", "1").want(t, 0, "ENETUNREACH")
		if port != "" {
			c.run(t, nil, "connect", "127.0.0.1:"+port, "1").want(t, 0, "ECONNREFUSED")
		}
	})
}

// A host name is resolved once, before; inside it is a line of /etc/hosts, and
// port 53 stays shut unless it is named. K-008
func TestPinnedNames(t *testing.T) {
	c := root(t)
	flags := []string{"--net", "direct", "--allow", apart.Name + ":443"}
	x := c.command(flags, "/bin/sh", "-c", "while read -r line; do echo \"$line\"; done </etc/hosts")
	r := finish(t, x, "")
	if r.out != "127.0.0.1 localhost\n::1 localhost\n"+apart.Far+" "+apart.Name+"\n" {
		t.Errorf("/etc/hosts: %q %s", r.out, r.err)
	}
	const open = " ENETUNREACH" // the programs let it pass; there is no way
	c.run(t, flags, "connect", apart.Far+":443", "1").want(t, 0, open)
	c.run(t, flags, "connect", apart.Far+":1", "1").want(t, 0, " EPERM")
	any := []string{"--net", "direct", "--allow", apart.Name}
	c.run(t, any, "connect", apart.Far+":1", "1").want(t, 0, open)
	c.run(t, any, "connect", apart.Far+":53", "1").want(t, 0, " EPERM")
	c.run(t, any, "send", apart.Far+":53", "1").want(t, 0, " EPERM")
	// A name opens nothing that is built in as closed, nor this host, whatever it
	// resolves to.
	closed := listener(t, apart.Addr+":0")
	c.run(t, []string{"--net", "direct", "--allow", apart.Closed + ":" + closed}, "connect", apart.Addr+":"+closed, "1").want(t, 0, " EPERM")
	c.run(t, []string{"--net", "direct", "--allow", apart.Addr + ":" + closed}, "connect", apart.Addr+":"+closed, "1").want(t, 0, " ok") // control
	c.refused(t, c.run(t, []string{"--net", "direct", "--allow", "no-such-name.invalid:80"}, "exit", "0"), "no-such-name.invalid")
}

// An ordinary user has no net direct, and is told. K-018
func TestDirectWithoutRoot(t *testing.T) {
	c := as(t, nobodyOrSelf())
	c.refused(t, c.run(t, []string{"--net", "direct"}, "exit", "0"), `cannot enforce "net direct"`, "hint: ")
}

// A descriptor that no program bound is no way out.
func TestHostSocketAsStdin(t *testing.T) {
	port := listener(t, "127.0.0.1:0")
	each(t, func(t *testing.T, c caller) {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		must(t, err)
		defer conn.Close()
		f, err := conn.(*net.TCPConn).File()
		must(t, err)
		defer f.Close()
		x := c.command(nil, c.in("exit", "0")...)
		x.Stdin = f
		out, _ := x.CombinedOutput()
		if code(x.ProcessState) != 125 || !strings.Contains(string(out), "stdin is a network socket") {
			t.Errorf("code %d: %s", code(x.ProcessState), out)
		}
	})
}
