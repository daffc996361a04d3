package seccomp

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Programs that the default policy has to let run, each doing what it uses unusual calls for.
var programs = []struct {
	name string
	need string // the program that has to be installed
	file string // written to the working directory
	text string
	run  string // for sh -e
	want string // in the output
}{
	{
		name: "git", need: "git",
		run: `export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q one; cd one; echo hello >f; chmod +x f; git add f; git commit -qm first; git gc -q; cd ..
git clone -q "file://$PWD/one" two; git -C two checkout -q -b topic; git -C two fetch -q; git -C two worktree add -q ../three HEAD~0; cat three/f`,
		want: "hello",
	},
	{
		name: "python", need: "python3", file: "t.py",
		text: `
import asyncio, multiprocessing, os, socket, sqlite3, subprocess, sys, tempfile, threading, time
from concurrent.futures import ProcessPoolExecutor

def square(x):
    return x * x

async def serve():
    async def answer(r, w):
        w.write((await r.readline()).upper()); await w.drain(); w.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
    w.write(b"tcp\n"); await w.drain()
    got = await r.readline()
    p = await asyncio.create_subprocess_exec("echo", "child", stdout=subprocess.PIPE)
    out, _ = await p.communicate()
    loop = asyncio.get_running_loop()
    n = await loop.run_in_executor(None, square, 3)
    server.close()
    return got, out, n

def main():
    assert asyncio.run(serve()) == (b"TCP\n", b"child\n", 9)
    for method in ("fork", "spawn", "forkserver"):
        ctx = multiprocessing.get_context(method)
        with ctx.Pool(2) as pool:
            assert pool.map(square, range(5)) == [0, 1, 4, 9, 16], method
        q = ctx.Queue()
        p = ctx.Process(target=q.put, args=(method,)); p.start()
        assert q.get(timeout=30) == method; p.join(); assert p.exitcode == 0
    with multiprocessing.Manager() as m:
        d = m.dict(); d["a"] = 1; assert d["a"] == 1
    from multiprocessing import shared_memory
    s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 7; s.close(); s.unlink()
    with ProcessPoolExecutor(2) as e:
        assert list(e.map(square, [2, 3])) == [4, 9]
    db = sqlite3.connect("t.db"); db.execute("pragma journal_mode=wal"); db.execute("create table t(x)")
    db.execute("insert into t values (42)"); db.commit(); assert db.execute("select x from t").fetchone() == (42,)
    a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0)); u.sendto(b"y", u.getsockname()); assert u.recv(1) == b"y"
    socket.getaddrinfo("localhost", 80)
    import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.sched_setaffinity(0, os.sched_getaffinity(0)); os.nice(1)
    with tempfile.TemporaryDirectory() as t:
        f = os.path.join(t, "f"); open(f, "w").close(); os.chmod(f, 0o600); os.utime(f); os.mkfifo(f + "p")
    if os.environ["FILTERED"] == "true":
        try: socket.socket(40, socket.SOCK_STREAM); raise SystemExit("vsock is open")
        except PermissionError: pass
    import pty; pid, fd = pty.fork()
    if pid == 0: os.execvp("echo", ["echo", "tty"])
    assert b"tty" in os.read(fd, 100); os.waitpid(pid, 0)
    print("python is well")

if __name__ == "__main__":
    main()
`,
		run: "python3 t.py", want: "python is well",
	},
	{
		name: "node", need: "node", file: "t.js",
		text: `
const fs = require('fs'), http = require('http'), os = require('os'), cp = require('child_process'), dns = require('dns'), dgram = require('dgram');
const { Worker } = require('worker_threads');
(async () => {
  os.networkInterfaces(); os.cpus(); os.setPriority(1);
  const w = fs.watch('.'); w.close();
  await fs.promises.writeFile('x', 'y'); await fs.promises.chmod('x', 0o600); await fs.promises.copyFile('x', 'z');
  const server = http.createServer((q, r) => r.end('ok')).listen(0, '127.0.0.1');
  await new Promise(r => server.once('listening', r));
  const body = await new Promise((r, j) => http.get({ host: '127.0.0.1', port: server.address().port }, m => { let s = ''; m.on('data', d => s += d); m.on('end', () => r(s)); }).on('error', j));
  if (body !== 'ok') throw body;
  server.close();
  await new Promise((r, j) => dns.lookup('localhost', e => e ? j(e) : r()));
  if (cp.execFileSync('echo', ['child']).toString() !== 'child\n') throw 'child';
  const c = cp.fork(__filename + '.child.js'); await new Promise(r => c.on('message', r)); c.kill();
  await new Promise((r, j) => new Worker('require("worker_threads").parentPort.postMessage(1)', { eval: true }).on('message', r).on('error', j));
  require('crypto').pbkdf2Sync('a', 'b', 10, 10, 'sha256'); require('zlib').gzipSync('a');
  console.log('node is well');
})().catch(e => { console.error(e); process.exit(1); });
`,
		run: `echo 'process.send(1); setTimeout(() => {}, 1e4)' >t.js.child.js; node t.js`, want: "node is well",
	},
	{
		name: "go", need: "go", file: "main.go",
		text: `package main

import ("fmt"; "io"; "net"; "net/http"; "os"; "os/exec"; "os/signal")

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0") // asks for MPTCP first
	if err != nil { panic(err) }
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "go is") }))
	r, err := http.Get("http://" + l.Addr().String())
	if err != nil { panic(err) }
	b, _ := io.ReadAll(r.Body)
	out, err := exec.Command("echo", "well").Output()
	if err != nil { panic(err) }
	signal.Notify(make(chan os.Signal, 1))
	if _, err := net.Interfaces(); err != nil { panic(err) }
	fmt.Print(string(b), " ", string(out))
}
`,
		run: `printf 'module t\ngo 1.21\n' >go.mod; export GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0; go build -o t . && ./t && go vet . || exit 1`, want: "go is well",
	},
	{
		name: "gcc", need: "gcc", file: "t.c",
		text: `
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static sem_t s;
static void *f(void *p) { sem_post(&s); return p; }
int main(void) {
	pthread_t t; pid_t p; int st; char *a[] = { "true", 0 };
	sem_init(&s, 0, 0);
	if (pthread_create(&t, 0, f, 0)) return 1;
	sem_wait(&s); pthread_join(t, 0);
	if (posix_spawnp(&p, "true", 0, 0, a, environ) || waitpid(p, &st, 0) < 0 || st) return 2;
	if (!(p = vfork())) _exit(3);
	if (waitpid(p, &st, 0) < 0 || WEXITSTATUS(st) != 3) return 4;
	puts("gcc is well");
	return 0;
}
`,
		run: "gcc -O2 -pipe -pthread -o t t.c && ./t", want: "gcc is well",
	},
	{
		name: "sqlite3", need: "sqlite3",
		run: `sqlite3 t.db 'pragma journal_mode=wal; create table t(x); insert into t values (41+1); select x from t;'`, want: "42",
	},
	{
		name: "sh", need: "sh",
		run: `sh -c 'trap "echo term" TERM; kill -TERM $$' & wait; mkfifo p; (echo well >p &) ; read x <p; nice -n 1 tar cf a.tar p; tar xf a.tar; cp -p a.tar b.tar
touch -d yesterday b.tar; ln -s b.tar c; ls -l >/dev/null; seq 1000 | sort -R | xargs -P 2 -n 100 echo | wc -l; timeout 5 true; setsid -w true; echo sh is $x`,
		want: "sh is well",
	},
	{
		name: "java", need: "java", file: "T.java",
		text: `
import java.net.*; import java.util.stream.*;
public class T {
	public static void main(String[] a) throws Exception {
		ServerSocket s = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
		Thread t = new Thread(() -> { try { s.accept().getOutputStream().write(65); } catch (Exception e) { throw new RuntimeException(e); } }); t.start();
		int n = new Socket(s.getInetAddress(), s.getLocalPort()).getInputStream().read();
		if (new ProcessBuilder("true").start().waitFor() != 0) throw new Exception("child");
		NetworkInterface.getNetworkInterfaces();
		IntStream.range(0, 100000).parallel().map(x -> x * x).sum();
		System.gc();
		System.out.println("java is " + (n == 65 ? "well" : "ill"));
	}
}
`,
		run: "java -XX:+UseNUMA T.java", want: "java is well",
	},
}

func TestHostProgramsRun(t *testing.T) {
	spec := Spec{Arch: thisArch(t), AllowInet: true, SysVIPC: true}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if _, err := exec.LookPath(p.need); err != nil {
				if p.need == "java" {
					t.Log("no Java on this machine: its row says nothing here")
					return
				}
				t.Fatalf("%v; the test needs git, python3, node, go, gcc and sqlite3", err)
			}
			// The control first: what fails without a filter says nothing about it.
			for _, j := range []job{{}, {Spec: &spec}} {
				dir := t.TempDir()
				if p.file != "" {
					if err := os.WriteFile(filepath.Join(dir, p.file), []byte(p.text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				j.Exec = []string{"sh", "-ec", p.run}
				cmd := command(t, j)
				cmd.Dir = dir
				cmd.Env = append(cmd.Env, fmt.Sprintf("FILTERED=%v", j.Spec != nil))
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil || !strings.Contains(string(out), p.want) {
					t.Fatalf("filter %v: %v\n%s\n%s", j.Spec != nil, err, out, stderr.String())
				}
				if j.Spec != nil && strings.Contains(stderr.String(), "not permitted") {
					t.Errorf("complains: %s", stderr.String())
				}
			}
		})
	}
}
