package quantity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// mostNested limits the nesting of a text, as encoding/json does.
const mostNested = 10000

// CheckJSON returns an error if decoding untrusted text into a type would parse a refused quantity; refused
// is IsEndless or TakesLong. It goes by types, because a name may look like a number. It checks each value of
// a repeated key, because decoding parses all of them.
func CheckJSON(data []byte, into reflect.Type, refused func(text string) bool) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return (&checker{decoder, refused}).value("it", into, mostNested)
}

type checker struct {
	*json.Decoder
	refused func(text string) bool
}

// value reads one value that would be decoded into a type. A nil type has no quantities.
func (c *checker) value(key string, into reflect.Type, deeper int) error {
	for into != nil && into.Kind() == reflect.Pointer {
		into = into.Elem()
	}
	token, err := c.Token()
	if err != nil {
		return err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		if text := fmt.Sprint(token); into == quantityType && c.refused(strings.TrimSpace(text)) {
			return fmt.Errorf("%s is %.80q: %w", key, text, ErrEndless)
		}
		return nil
	}
	if deeper == 0 {
		return fmt.Errorf("it is nested more than %d deep", mostNested)
	}
	for c.More() {
		next := into
		switch {
		case delim == '{':
			token, err := c.Token()
			if err != nil {
				return err
			}
			key = fmt.Sprint(token)
			next = typeOf(into, key)
		case into != nil && into.Kind() == reflect.Slice:
			next = into.Elem()
		default:
			next = nil
		}
		if err := c.value(key, next, deeper-1); err != nil {
			return err
		}
	}
	_, err = c.Token()
	return err
}

// typeOf returns the type of an object's value for a key, or nil if the object has no such field. Like
// encoding/json, it ignores case.
func typeOf(object reflect.Type, key string) reflect.Type {
	if object == nil {
		return nil
	}
	switch object.Kind() {
	case reflect.Map:
		return object.Elem()
	case reflect.Struct:
		for field := range object.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" && field.Anonymous {
				if found := typeOf(field.Type, key); found != nil {
					return found
				}
			} else if strings.EqualFold(name, key) {
				return field.Type
			}
		}
	}
	return nil
}
