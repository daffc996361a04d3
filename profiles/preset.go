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

//go:generate go test -count=1 -run ^TestPrebuilt$ . -update

// Preset is an embedded profile. It is compiled in as a value: a run of a preset
// parses no text. A test compares it with the text, which stays the source.
func Preset(name string) (*Document, bool) {
	d := prebuilt(name)
	return d, d != nil
}
