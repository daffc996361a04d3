package profiles

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestSchema: the schema lists exactly the accepted keys.
func TestSchema(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	var walk func(prefix string, s map[string]any)
	walk = func(prefix string, s map[string]any) {
		if items, ok := s["items"].(map[string]any); ok {
			s = items
		}
		props, _ := s["properties"].(map[string]any)
		if props != nil && s["additionalProperties"] != false {
			t.Errorf("%q takes unknown keys", prefix)
		}
		if _, ok := s["additionalProperties"].(map[string]any); ok {
			got = append(got, prefix+"*")
		}
		for k, v := range props {
			got = append(got, prefix+k)
			walk(prefix+k+".", v.(map[string]any))
		}
	}
	walk("", root)
	for _, k := range keys {
		want = append(want, k.key)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("schema %v\nparser %v", got, want)
	}
}
