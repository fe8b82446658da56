package kubectl

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// outputTypes are the types of -o json, one for each command.
var outputTypes = []any{deviceList{}, fitOutput{}, holdersOutput{}, fragmentationOutput{}, versionOutput{}, explainOutput{}, overviewOutput{}}

var camelCase = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)

// TestSchema: each field of -o json has an explicit name in camelCase, so that renaming a field in Go changes nothing
// for programs that read it.
func TestSchema(t *testing.T) {
	for _, output := range outputTypes {
		for _, wrong := range untagged(reflect.TypeOf(output), map[reflect.Type]bool{}) {
			t.Error(wrong)
		}
	}
	type Inner struct{ Count int }
	type outer struct {
		Inner `json:",inline"`
		Good  []Inner `json:"good"`
		Bad   string  `json:"Bad"`
		Out   string  `json:"-"`
	}
	require.Len(t, untagged(reflect.TypeFor[outer](), map[reflect.Type]bool{}), 2, "the check finds a field without a tag, and one that is not in camelCase")
}

// untagged finds the fields of a type, and of the types of its fields, without a name in camelCase.
func untagged(in reflect.Type, seen map[reflect.Type]bool) (wrong []string) {
	switch in.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return untagged(in.Elem(), seen)
	case reflect.Struct:
	default:
		return nil
	}
	if seen[in] || in.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(in).Implements(reflect.TypeFor[json.Marshaler]()) {
		return nil
	}
	seen[in] = true
	for i := range in.NumField() {
		field := in.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		embedded := field.Anonymous && name == ""
		switch {
		case !field.IsExported() && !embedded, name == "-" && options == "":
			continue
		case !embedded && !camelCase.MatchString(name):
			wrong = append(wrong, fmt.Sprintf("%s.%s has the name %q in JSON", in, field.Name, name))
		}
		wrong = append(wrong, untagged(field.Type, seen)...)
	}
	return wrong
}
