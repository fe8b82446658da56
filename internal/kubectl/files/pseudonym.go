package files

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
)

// Replace returns the objects as a dump has them, with pseudonyms for names, namespaces, UIDs and the values of
// labels and taints. It replaces equal texts by the same pseudonym everywhere, including references and selectors, so
// that all relations between the objects stay the same. Pseudonyms sort like the original texts, because the order of
// names decides which devices the allocator tries first. They depend on a random key that is not stored.
func Replace(objects whatif.Objects) (whatif.Objects, error) {
	text, err := json.Marshal(whatif.Slim(objects))
	if err != nil {
		return whatif.Objects{}, fmt.Errorf("replace names: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree map[string]any
	if err := decoder.Decode(&tree); err != nil {
		return whatif.Objects{}, fmt.Errorf("replace names: %w", err)
	}
	r := &replacing{names: make(map[string]bool), others: make(map[string]bool)}
	missing, _ := tree["missing"].([]any)
	delete(tree, "missing")
	r.object(tree, "")
	r.missing(missing)
	if err := r.choose(); err != nil {
		return whatif.Objects{}, err
	}
	result := r.object(tree, "")
	if missing != nil {
		result["missing"] = r.missing(missing)
	}
	if text, err = json.Marshal(result); err != nil {
		return whatif.Objects{}, fmt.Errorf("replace names: %w", err)
	}
	var replaced whatif.Objects
	if err := json.Unmarshal(text, &replaced); err != nil {
		return whatif.Objects{}, fmt.Errorf("replace names: %w", err)
	}
	return replaced, nil
}

// replacing traverses the objects twice: first to collect the texts, then to replace them.
type replacing struct {
	// names are names of objects, others are other texts, for example values of labels.
	names, others map[string]bool
	// pseudonyms is nil the first time.
	pseudonyms map[string]string
}

// choose makes pseudonyms for all collected texts.
func (r *replacing) choose() error {
	key := make([]byte, sha256.Size)
	if _, err := rand.Read(key); err != nil {
		return fmt.Errorf("make a key for pseudonyms: %w", err)
	}
	maps.Copy(r.others, r.names)
	sorted := slices.Sorted(maps.Keys(r.others))
	digits := len(fmt.Sprint(len(sorted)))
	r.pseudonyms = make(map[string]string, len(sorted))
	for i, text := range sorted {
		hash := hmac.New(sha256.New, key)
		hash.Write([]byte(text))
		r.pseudonyms[text] = fmt.Sprintf("n%0*d-%s", digits, i, hex.EncodeToString(hash.Sum(nil)[:4]))
	}
	return nil
}

// object returns the replacement of an object, which is the value of a key.
func (r *replacing) object(object map[string]any, key string) map[string]any {
	result := make(map[string]any, len(object))
	for name, value := range object {
		switch {
		case left[name]:
		case name == "annotations":
			if kept := r.annotations(value); kept != nil {
				result[name] = kept
			}
		case name == "parameters":
			result[name] = map[string]any{}
		case subtrees[name]:
			result[r.resource(name)] = r.keys(value)
		default:
			result[r.resource(name)] = r.value(value, key, name)
		}
	}
	return result
}

// value returns the replacement of a field's value; key is the key of its object.
func (r *replacing) value(value any, key, name string) any {
	switch v := value.(type) {
	case map[string]any:
		if isLabels(v, name) {
			return r.labels(v)
		}
		return r.object(v, name)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			if object, is := v[i].(map[string]any); is {
				list[i] = r.object(object, name)
			} else {
				list[i] = r.value(v[i], key, name)
			}
		}
		return list
	case string:
		return r.text(v, key, name)
	}
	return value
}

func (r *replacing) text(text, key, name string) string {
	switch {
	case kept[name]:
		return text
	case name == "resourceName":
		return r.resource(text)
	case partly[name], name == "name" && inside[key]:
		return r.within(text)
	case isHarmless(text):
		return text
	case name == "value" || name == "values":
		return r.replace(text, r.others)
	}
	return r.replace(text, r.names)
}

// replace returns the pseudonym of a text, or collects the text in the first pass.
func (r *replacing) replace(text string, seen map[string]bool) string {
	if r.pseudonyms == nil {
		seen[text] = true
		return text
	}
	return r.pseudonyms[text]
}

// keys replaces the classes in names of extended resources, and nothing else.
func (r *replacing) keys(value any) any {
	object, is := value.(map[string]any)
	if !is {
		return value
	}
	result := make(map[string]any, len(object))
	for name, value := range object {
		result[r.resource(name)] = value
	}
	return result
}

var word = regexp.MustCompile(`[A-Za-z0-9]+`)

// within replaces names of objects that occur in a text as whole words, the longest first.
func (r *replacing) within(text string) string {
	if r.pseudonyms == nil {
		return text
	}
	words := word.FindAllStringIndex(text, -1)
	var result strings.Builder
	end := 0
	for i := 0; i < len(words); i++ {
		for j := len(words) - 1; j >= i; j-- {
			if part := text[words[i][0]:words[j][1]]; r.names[part] && !isHarmless(part) {
				result.WriteString(text[end:words[i][0]] + r.pseudonyms[part])
				i, end = j, words[j][1]
				break
			}
		}
	}
	return result.String() + text[end:]
}

// isLabels reports whether an object is a map of labels, including a pod's nodeSelector but not that of a slice.
func isLabels(object map[string]any, name string) bool {
	return name == "labels" || name == "matchLabels" || name == "nodeSelector" && object["nodeSelectorTerms"] == nil
}

func (r *replacing) labels(labels map[string]any) map[string]any {
	result := make(map[string]any, len(labels))
	for key, value := range labels {
		if text, is := value.(string); is && !isHarmless(text) {
			value = r.replace(text, r.others)
		}
		result[key] = value
	}
	return result
}

// missing replaces the reasons why objects could not be read, because errors may contain any name.
func (r *replacing) missing(list []any) []any {
	result := make([]any, 0, len(list))
	for _, one := range list {
		object, _ := one.(map[string]any)
		resource, _ := object["resource"].(string)
		why, _ := object["why"].(string)
		if !strings.HasPrefix(why, "the right to ") {
			why = "an error, which is not repeated here because it may have names in it"
		}
		why = namespaced.ReplaceAllStringFunc(why, func(text string) string {
			return "namespace " + r.replace(strings.TrimPrefix(text, "namespace "), r.names)
		})
		result = append(result, map[string]any{"resource": r.within(resource), "why": why})
	}
	return result
}

var namespaced = regexp.MustCompile(`\bnamespace [a-z0-9][a-z0-9-]*`)
