package profiles_test

import (
	"bytes"
	"fmt"
	"go/format"
	"maps"
	"os"
	"reflect"
	"slices"
	"testing"

	"lockbox/profiles"
)

// The Go literals of the presets say what the TOML says. -update writes them anew
// (go generate does).
func TestPrebuilt(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("// Code generated from presets/*.toml by go generate. DO NOT EDIT.\n\npackage profiles\n\n")
	b.WriteString("// prebuilt is the parsed document of an embedded preset, made anew for each call; nil\n// for any other name.\nfunc prebuilt(name string) *Document {\nswitch name {\n")
	for _, name := range profiles.PresetNames() {
		text, _ := profiles.PresetText(name)
		d, err := profiles.Parse("preset:"+name, text)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "case %q:\nreturn &Document", name)
		literal(&b, reflect.ValueOf(*d))
		b.WriteString("\n")
		if *update {
			continue
		}
		if got, _ := profiles.Preset(name); !reflect.DeepEqual(got, d) {
			t.Errorf("%s: %+v\nwant %+v; run go generate ./profiles", name, got, d)
		}
	}
	b.WriteString("}\nreturn nil\n}\n")
	want, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("prebuilt.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if have, err := os.ReadFile("prebuilt.go"); err != nil || !bytes.Equal(have, want) {
		t.Errorf("prebuilt.go is not what the presets give (%v); run go generate ./profiles", err)
	}
}

// literal writes a value of this package as Go source, zero fields left out.
func literal(b *bytes.Buffer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		b.WriteString("{")
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				b.WriteString(v.Type().Field(i).Name + ": ")
				if f.Kind() == reflect.Struct {
					b.WriteString(f.Type().Name())
				}
				literal(b, f)
				b.WriteString(", ")
			}
		}
		b.WriteString("}")
	case reflect.Pointer:
		b.WriteString("new(")
		if v.Elem().Kind() == reflect.Uint8 {
			b.WriteString(v.Elem().Type().Name())
			defer b.WriteString(")")
			b.WriteString("(")
		}
		if v.Elem().Kind() == reflect.Struct {
			b.WriteString(v.Elem().Type().Name())
		}
		literal(b, v.Elem())
		b.WriteString(")")
	case reflect.Slice:
		name, sep := v.Type().Elem().Name(), ", "
		if v.Type().Elem().Kind() == reflect.Struct {
			sep = ",\n"
		}
		b.WriteString("[]" + name + "{")
		if sep != ", " {
			b.WriteString("\n")
		}
		for i := range v.Len() {
			literal(b, v.Index(i))
			b.WriteString(sep)
		}
		b.WriteString("}")
	case reflect.Map:
		b.WriteString("map[string]string{")
		m := v.Interface().(map[string]string)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(b, "%q: %q, ", k, m[k])
		}
		b.WriteString("}")
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	case reflect.Uint8: // Access, Mode
		fmt.Fprint(b, v.Uint())
	case reflect.Bool, reflect.Uint16, reflect.Int64, reflect.Float64:
		fmt.Fprint(b, v.Interface())
	default:
		panic("BUG: no literal for " + v.Type().String())
	}
}
