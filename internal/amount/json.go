package amount

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// CheckJSON returns an error if decoding text of somebody else into an object would parse an endless quantity. It goes by
// types, as a name may look like a number, and sees each of several values of one key, because all of them are parsed.
func CheckJSON(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return checkValue(decoder, reflect.TypeOf(into))
}

// checkValue reads one value that would be decoded into a type, nil for one that has no quantities.
func checkValue(decoder *json.Decoder, into reflect.Type) error {
	for into != nil && into.Kind() == reflect.Pointer {
		into = into.Elem()
	}
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	delim, nested := token.(json.Delim)
	if !nested {
		if into == quantityType && IsEndless(strings.TrimSpace(fmt.Sprint(token))) {
			return ErrEndless
		}
		return nil
	}
	for decoder.More() {
		next := into
		switch {
		case delim == '{':
			key, err := decoder.Token()
			if err != nil {
				return err
			}
			next = typeOf(into, fmt.Sprint(key))
		case into != nil && into.Kind() == reflect.Slice:
			next = into.Elem()
		default:
			next = nil
		}
		if err := checkValue(decoder, next); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}

// typeOf returns the type of what an object has under a key, nil if it has nothing there. Like encoding/json it takes no
// notice of case.
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
