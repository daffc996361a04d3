package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// The follower answers as filepath.EvalSymlinks does, the second time too.
func TestFollower(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []error{
		os.MkdirAll(dir+"/a/b", 0o755), os.WriteFile(dir+"/file", nil, 0o644),
		os.Symlink("a", dir+"/rel"), os.Symlink(dir+"/rel/b", dir+"/abs"), os.Symlink("../rel", dir+"/a/up"),
		os.Symlink("nowhere", dir+"/dangling"), os.Symlink("loop", dir+"/loop"), os.Symlink("file", dir+"/tofile"),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	f := follower{}
	for range 2 {
		for _, name := range []string{"", "/a/b", "/rel/b", "/abs", "/a/up/b", "/rel/up/up/b", "/dangling", "/dangling/x", "/loop", "/file/x",
			"/tofile", "/tofile/x", "/none", "/none/below", "/rel/none"} {
			want, wantErr := filepath.EvalSymlinks(dir + name)
			got, gotErr := f.eval(dir + name)
			if got != want || (gotErr == nil) != (wantErr == nil) {
				t.Errorf("%s: got %q, %v; want %q, %v", name, got, gotErr, want, wantErr)
			}
			if a, b := f.resolved(dir+name), follower(nil).resolved(dir+name); a != b {
				t.Errorf("resolved %s: got %q, want %q", name, a, b)
			}
		}
	}
	if got, err := f.eval("/"); got != "/" || err != nil {
		t.Errorf("/: got %q, %v", got, err)
	}
}
