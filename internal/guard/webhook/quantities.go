package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// To parse the quantity 1e-999999999 takes resource.Quantity hours, in which nobody can interrupt
// it. An API server would have to have parsed it before it asks; whoever else reaches the port
// need not. So quantities are looked at as text before they are decoded.

// suspicious are texts and numbers that would be such a quantity if they were one. Most often
// there is nothing like that, and looking for it costs microseconds.
var suspicious = regexp.MustCompile(`[0-9.][eE][+-]?[0-9]{5}|[0-9]{1000}`)

// checkQuantities returns an error if a review has a quantity that takes long to parse.
func checkQuantities(data []byte) error {
	if !suspicious.Match(data) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return walk(decoder)
}

// mostNested is more than there is in a claim, and no more than can be decoded.
const mostNested = 10000

// container is an object or a list that is being read. key is the one that it has in the object
// around it, member that of what is read in it; both are empty in lists.
type container struct {
	key, member      string
	isObject, hasKey bool
}

// walk checks all quantities. What is no JSON ends it: whoever decodes that says what is wrong.
func walk(decoder *json.Decoder) error {
	around := []container{{}}
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
			innermost.member, innermost.hasKey = token.(string), true
		default:
			innermost.hasKey = false
			if isDelimiter {
				around = append(around, container{key: innermost.member, isObject: delimiter == '{'})
			} else if err := checkQuantity(fmt.Sprint(token), innermost.member, innermost.key); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkQuantity returns an error for a quantity that takes long to parse. In claims, quantities are
// in status.allocation.devices.results[].consumedCapacity and in capacity.requests of requests.
func checkQuantity(text, key, parent string) error {
	if !strings.EqualFold(parent, "consumedCapacity") && !strings.EqualFold(parent, "requests") || !suspicious.MatchString(text) {
		return nil
	}
	return fmt.Errorf("%s of %s is %.80q, which has too many digits to be a quantity; no API server asks about it", key, parent, text)
}
