package profiles

import (
	"embed"
	"slices"
	"strings"
)

//go:embed presets/*.toml
var presetFiles embed.FS

// PresetNames lists the embedded presets, sorted.
func PresetNames() []string {
	entries, err := presetFiles.ReadDir("presets")
	if err != nil {
		panic("BUG: presets are not embedded: " + err.Error())
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".toml"))
	}
	slices.Sort(out)
	return out
}

// PresetText is the document of an embedded profile as it was written.
func PresetText(name string) ([]byte, bool) {
	if !slices.Contains(PresetNames(), name) {
		return nil, false
	}
	data, err := presetFiles.ReadFile("presets/" + name + ".toml")
	if err != nil {
		panic("BUG: preset " + name + ": " + err.Error())
	}
	return data, true
}

// Preset is an embedded profile.
func Preset(name string) (*Document, bool) {
	data, ok := PresetText(name)
	if !ok {
		return nil, false
	}
	d, err := Parse("preset:"+name, data)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return d, true
}
