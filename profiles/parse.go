package profiles

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// maxDocument bounds a profile file, in bytes.
const maxDocument = 4 << 20

// file mirrors a profile file for the decoder.
type file struct {
	Version *int64      `toml:"version"`
	Name    string      `toml:"name"`
	Extends []string    `toml:"extends"`
	File    []fileTable `toml:"file"`
	Net     struct {
		Mode   *string  `toml:"mode"`
		Allow  []string `toml:"allow"`
		Listen []int64  `toml:"listen"`
		Unix   []string `toml:"unix"`
	} `toml:"net"`
	Limits struct {
		Memory   *string  `toml:"memory"`
		Pids     *int64   `toml:"pids"`
		CPU      *float64 `toml:"cpu"`
		Wall     *string  `toml:"wall"`
		Output   *string  `toml:"output"`
		Files    *int64   `toml:"files"`
		FileSize *string  `toml:"file_size"`
	} `toml:"limits"`
	Env struct {
		Pass   []string          `toml:"pass"`
		Set    map[string]string `toml:"set"`
		Secret map[string]string `toml:"secret"`
	} `toml:"env"`
	Process struct {
		Syscalls any   `toml:"syscalls"`
		TTY      *bool `toml:"tty"`
	} `toml:"process"`
}

type fileTable struct {
	Path     *string `toml:"path"`
	PathB64  *string `toml:"path_b64"`
	Access   *string `toml:"access"`
	Carve    bool    `toml:"carve"`
	Optional bool    `toml:"optional"`
}

// parser carries what every check needs to name its place.
type parser struct {
	source string
	pos    *positions
	in     file
}

// Parse reads one profile file, strictly: unknown keys, doubled paths and bad
// values are a *SyntaxError. Source is only for messages and rule ids.
func Parse(source string, data []byte) (*Document, error) {
	if len(data) > maxDocument {
		return nil, &SyntaxError{Source: source, Msg: fmt.Sprintf("%d bytes are too many for a profile; at most %d", len(data), maxDocument)}
	}
	p := &parser{source: source}
	if err := toml.Unmarshal(data, &p.in); err != nil {
		p.pos = locate(data)
		return nil, p.decodeError(err)
	}
	p.pos = locate(data)
	if p.pos.unknown != "" {
		return nil, p.unknownKey()
	}
	return p.document()
}

// unknownKey is about the first key that is not in the table. The decoder
// itself takes keys in any case.
func (p *parser) unknownKey() error {
	key := withoutIndex(p.pos.unknown)
	last := strings.ReplaceAll(key[strings.LastIndexByte(key, '.')+1:], "\x1f", ".")
	e := p.errorf(p.pos.unknown, "unknown key %q", last)
	e.Want = siblings(key)
	return e
}

// errorf is a *SyntaxError at a key path, with what the key wants.
func (p *parser) errorf(key, format string, args ...any) *SyntaxError {
	e := &SyntaxError{Source: p.source, Key: strings.ReplaceAll(key, "\x1f", "."), Msg: fmt.Sprintf(format, args...)}
	for k := key; ; {
		if off, ok := p.pos.at[k]; ok {
			e.Line, e.Col = p.pos.lineCol(off)
			break
		}
		i := strings.LastIndexAny(k, ".[")
		if i < 0 {
			break
		}
		k = k[:i]
	}
	return e
}

// value is errorf for a value that cannot be read.
func (p *parser) value(key string, err error) error {
	e := p.errorf(key, "%s: %v", withoutIndex(key), err)
	plain := withoutIndex(key)
	if i := strings.IndexByte(plain, '['); i >= 0 {
		plain = plain[:i]
	}
	if want, ok := wantOf(plain); ok && !strings.Contains(err.Error(), "want ") {
		e.Want = want
	}
	return e
}

// decodeError translates what the TOML decoder says.
func (p *parser) decodeError(err error) error {
	e := &SyntaxError{Source: p.source, Msg: err.Error()}
	var de *toml.DecodeError
	if !errors.As(err, &de) {
		return e
	}
	e.Line, e.Col = de.Position()
	e.Msg = strings.TrimPrefix(de.Error(), "toml: ")
	e.Key = strings.Join(de.Key(), ".")
	if !strings.Contains(e.Msg, "cannot decode") && !strings.Contains(e.Msg, "cannot be decoded") && !strings.Contains(e.Msg, "cannot store") && !strings.Contains(e.Msg, "struct field") {
		return e
	}
	if p.pos.unknown != "" {
		return p.unknownKey()
	}
	e.Msg = "bad type for " + e.Key
	e.Want, _ = wantOf(e.Key)
	return e
}

func (p *parser) document() (*Document, error) {
	d := &Document{Source: p.source, Name: p.in.Name, Extends: p.in.Extends}
	switch {
	case p.in.Version == nil:
		return nil, p.errorf("version", `no version; write "version = 1" first`)
	case *p.in.Version != 1:
		return nil, p.value("version", fmt.Errorf("%d is not known", *p.in.Version))
	case d.Name != "" && !validName(d.Name):
		return nil, p.value("name", fmt.Errorf("bad name %q", shorten(d.Name)))
	}
	for i, n := range d.Extends {
		if n == "" || strings.IndexByte(n, 0) >= 0 {
			return nil, p.value(index("extends", i), fmt.Errorf("bad name %q", n))
		}
	}
	for _, part := range []func(*Document) error{p.files, p.net, p.limits, p.env, p.process} {
		if err := part(d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func index(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

// maxName holds the name of a profile that many others were composed into.
const maxName = 4096

func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-+&", c) >= 0) {
			return false
		}
	}
	return true
}

func (p *parser) files(d *Document) error {
	type place struct {
		path           string
		literal, carve bool
	}
	seen := make(map[place]int, len(p.in.File))
	for i, t := range p.in.File {
		key := index("file", i)
		r := FileRule{Carve: t.Carve, Optional: t.Optional}
		if err := p.filePath(key, t, &r); err != nil {
			return err
		}
		if t.Access == nil {
			return p.value(key+".access", errors.New("missing"))
		}
		a, err := ParseAccess(*t.Access)
		if err != nil {
			return p.value(key+".access", err)
		}
		r.Access = a
		pl := place{r.Path, r.Literal, r.Carve}
		if first, ok := seen[pl]; ok {
			return p.errorf(key+".path", "path %q stands twice; first in [[file]] %d", shorten(r.Path), first+1)
		}
		seen[pl] = i
		d.Files = append(d.Files, r)
	}
	return nil
}

func (p *parser) filePath(key string, t fileTable, r *FileRule) error {
	switch {
	case t.Path != nil && t.PathB64 != nil:
		return p.errorf(key+".path_b64", "path and path_b64 exclude each other")
	case t.PathB64 != nil:
		b, err := base64.StdEncoding.Strict().DecodeString(*t.PathB64)
		if err != nil {
			return p.value(key+".path_b64", errors.New("not base64"))
		}
		r.Path, r.Literal = string(b), true
		if _, err := cleanPath(r.Path); err != nil {
			return p.value(key+".path_b64", err)
		}
	case t.Path != nil:
		r.Path = *t.Path
		if err := checkRaw(r.Path); err != nil {
			return p.value(key+".path", err)
		}
	default:
		return p.value(key+".path", errors.New("missing"))
	}
	return nil
}

// checkRaw finds what is wrong with a path whatever its variables stand for.
func checkRaw(raw string) error {
	if raw != "" && (raw[0] == '~' || raw[0] == '$') {
		raw = "/" + raw
	}
	_, err := cleanPath(raw)
	return err
}
