package profiles

import _ "embed"

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema of a profile file.
func Schema() []byte { return append([]byte(nil), schema...) }
