package profiles

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// positions maps a key path, as file[2].access, to its offset in the document.
type positions struct {
	data []byte
	at   map[string]int
	// unknown is the first key that is not in the table; empty without one.
	unknown    string
	unknownOff int
	files      int // [[file]] tables so far
}

// locate walks a document that has already been decoded once, and so is valid.
func locate(data []byte) *positions {
	ps := &positions{data: data, at: map[string]int{}}
	var p unstable.Parser
	p.Reset(data)
	prefix := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table:
			prefix = ps.key("", e)
		case unstable.ArrayTable:
			prefix = ps.key("", e)
			if prefix == "file" {
				prefix = ps.nextFile(ps.at[prefix])
			}
		case unstable.KeyValue:
			ps.keyValue(prefix, e)
		}
	}
	return ps
}

func (ps *positions) nextFile(off int) string {
	prefix := "file[" + strconv.Itoa(ps.files) + "]"
	ps.files++
	ps.at[prefix] = off
	return prefix
}

func (ps *positions) keyValue(prefix string, n *unstable.Node) {
	key := ps.key(prefix, n)
	ps.value(key, n.Value())
}

// value records what is inside an inline table or array.
func (ps *positions) value(key string, v *unstable.Node) {
	it := v.Children()
	switch v.Kind {
	case unstable.InlineTable:
		for it.Next() {
			if it.Node().Kind == unstable.KeyValue {
				ps.keyValue(key, it.Node())
			}
		}
	case unstable.Array:
		for i := 0; it.Next(); i++ {
			el := it.Node()
			if el.Kind == unstable.Comment {
				i--
				continue
			}
			off := int(el.Raw.Offset)
			if el.Raw.Length == 0 {
				off = ps.at[key]
			}
			if key == "file" {
				ps.value(ps.nextFile(ps.at[key]), el)
				continue
			}
			ps.at[key+"["+strconv.Itoa(i)+"]"] = off
		}
	}
}

// key records the path of a table or key and checks each part of it against
// the table of keys.
func (ps *positions) key(prefix string, n *unstable.Node) string {
	it := n.Key()
	for it.Next() {
		part := strings.ReplaceAll(string(it.Node().Data), ".", "\x1f")
		if prefix != "" {
			part = prefix + "." + part
		} else if strings.HasPrefix(part, "file[") {
			part = "\x1f" + part // a quoted key cannot pass for an index
		}
		prefix = part
		off := int(it.Node().Raw.Offset)
		ps.at[prefix] = off
		if _, ok := wantOf(withoutIndex(prefix)); !ok && ps.unknown == "" {
			ps.unknown, ps.unknownOff = prefix, off
		}
		if prefix == "file" && it.Node().Next() != nil && ps.files > 0 {
			prefix = "file[" + strconv.Itoa(ps.files-1) + "]" // [file.x] means the last one
		}
	}
	return prefix
}

// withoutIndex turns file[3].path into file.path.
func withoutIndex(key string) string {
	if rest, ok := strings.CutPrefix(key, "file["); ok {
		if i := strings.IndexByte(rest, ']'); i >= 0 {
			return "file" + rest[i+1:]
		}
	}
	return key
}

// lineCol turns an offset into line and column in bytes, both from 1.
func (ps *positions) lineCol(off int) (line, col int) {
	before := ps.data[:min(off, len(ps.data))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}
