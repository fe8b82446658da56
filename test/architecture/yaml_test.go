package architecture

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")
	// fragment begins what a page shows of a claim's spec: "the following sections show only the part below devices:".
	fragment = regexp.MustCompile(`(?m)\A( *)(requests|selectors|constraints|config):`)
)

// TestYAMLOfDocuments: objects of Kubernetes' own API in pages for users have the fields that they are shown with.
func TestYAMLOfDocuments(t *testing.T) {
	t.Parallel()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	objects := 0
	for path, text := range pages(t, "docs") {
		for _, block := range yamlBlock.FindAllStringSubmatch(text, -1) {
			documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(claimAround(block[1]))))
			for {
				document, err := documents.Read()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err, path)
				var kind metav1.TypeMeta
				require.NoError(t, yaml.Unmarshal(document, &kind), "%s:\n%s", path, document)
				if !scheme.Scheme.Recognizes(kind.GroupVersionKind()) {
					continue // A configuration file, or an object of a CustomResourceDefinition.
				}
				_, _, err = strict.Decode(document, nil, nil)
				require.False(t, runtime.IsStrictDecodingError(err), "%s: %v\n%s", path, err, document)
				require.NoError(t, err, "%s:\n%s", path, document)
				objects++
			}
		}
	}
	require.Greater(t, objects, 15)
}

// claimAround completes the part of a claim's spec that a block shows.
func claimAround(block string) string {
	found := fragment.FindStringSubmatch(block)
	if found == nil {
		return block
	}
	const claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n"
	indent, first := found[1], ""
	if found[2] == "selectors" { // Of a request.
		first = "    requests:\n    - name: r\n      exactly:\n        deviceClassName: c\n"
		return claim + first + reindent(block, indent, "        ")
	}
	return claim + reindent(block, indent, "    ")
}

// reindent replaces the indentation of a block.
func reindent(block, from, to string) string {
	var b strings.Builder
	for line := range strings.Lines(block) {
		b.WriteString(to + strings.TrimPrefix(line, from))
	}
	return b.String()
}
