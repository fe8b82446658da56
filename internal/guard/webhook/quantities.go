package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quartermaster-dra/quartermaster/internal/apiversions"
)

// To parse the quantity 1e-999999999 takes resource.Quantity hours, in which nobody can interrupt
// it. An API server would have to have parsed it before it asks; whoever else reaches the port
// need not. So quantities are looked at as text before they are decoded. Where a claim has quantities
// its Go type says: names of requests and values of parameters may look like them.

// suspicious are texts and numbers that would be such a quantity if they were one. Most often
// there is nothing like that, and looking for it costs microseconds.
var suspicious = regexp.MustCompile(`[0-9.][eE][+-]?[0-9]{5}|[0-9]{1000}`)

var quantityType = reflect.TypeFor[resource.Quantity]()

// checkQuantities returns an error if a claim of a version has a quantity that takes long to parse.
func checkQuantities(version apiversions.Version, data []byte) error {
	if !suspicious.Match(data) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return walk(decoder, apiversions.ClaimType(version))
}

// mostNested is more than there is in a claim, and no more than can be decoded.
const mostNested = 10000

// container is an object or a list that is being read. is is its type, nil if it is decoded into none.
// of is the type of the member that is read next in an object, and key that member's key.
type container struct {
	is, of           reflect.Type
	key              string
	isObject, hasKey bool
}

// walk checks all quantities of what is decoded into a type. What is no JSON ends it: whoever decodes that
// says what is wrong.
func walk(decoder *json.Decoder, into reflect.Type) error {
	around := []container{{of: into}}
	for len(around) > 0 && len(around) < mostNested {
		token, err := decoder.Token()
		if err != nil {
			return nil
		}
		innermost := &around[len(around)-1]
		delimiter, isDelimiter := token.(json.Delim)
		switch {
		case isDelimiter && (delimiter == '}' || delimiter == ']'):
			around = around[:len(around)-1]
		case innermost.isObject && !innermost.hasKey:
			innermost.key, innermost.hasKey = token.(string), true
			innermost.of = member(innermost.is, innermost.key)
		default:
			innermost.hasKey = false
			if isDelimiter {
				around = append(around, inner(innermost.of, delimiter))
			} else if text := fmt.Sprint(token); innermost.of == quantityType && suspicious.MatchString(text) {
				return fmt.Errorf("%s is %.80q, which has too many digits to be a quantity; no API server asks about it", innermost.key, text)
			}
		}
	}
	return nil
}

// inner is an object or a list that is decoded into a type.
func inner(is reflect.Type, delimiter json.Delim) container {
	c := container{is: is, isObject: delimiter == '{'}
	if !c.isObject && is != nil && is.Kind() == reflect.Slice {
		c.of = target(is.Elem())
	}
	return c
}

// member returns the type of an object's member, nil if it is not decoded.
func member(of reflect.Type, key string) reflect.Type {
	switch {
	case of == nil || of == quantityType:
		return nil
	case of.Kind() == reflect.Map:
		return target(of.Elem())
	case of.Kind() == reflect.Struct:
		return members(of)[folded(key)]
	default:
		return nil
	}
}

// ofMembers are results of members, by the struct.
var ofMembers sync.Map

// members returns the types of a struct's members by their folded keys.
func members(of reflect.Type) map[string]reflect.Type {
	if found, ok := ofMembers.Load(of); ok {
		return found.(map[string]reflect.Type)
	}
	found := make(map[string]reflect.Type)
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && !field.Anonymous {
			name = field.Name
		}
		found[folded(name)] = target(field.Type)
	}
	ofMembers.Store(of, found)
	return found
}

// folded is one text for all keys that encoding/json takes for the same.
func folded(key string) string { return strings.ToLower(strings.ToUpper(key)) }

// target is the type that a pointer's value is decoded into.
func target(of reflect.Type) reflect.Type {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of
}
