package reasons

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentsNameAllCauses: what is counted is explained, and it is said what to do; rules ask for no other causes.
func TestDocumentsNameAllCauses(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		content, err := os.ReadFile("../../../" + path)
		require.NoError(t, err)
		return string(content)
	}
	known := make(map[string]bool)
	metrics, advice := read("docs/monitoring.md"), read("docs/troubleshooting.md")
	_, advice, found := strings.Cut(advice, "### Pods that wait, by cause")
	require.True(t, found)
	advice, _, _ = strings.Cut(advice, "###")
	for i := range names {
		cause := Cause(i)
		known[cause.String()] = true
		require.Contains(t, metrics, "| `"+cause.String()+"` |")
		require.Regexp(t, `(?m)^\|[a-z_, ]*\b`+cause.String()+`\b[a-z_, ]*\|`, advice)
	}
	asked := regexp.MustCompile(`cause=~?\\?"([a-z_|]+)\\?"`).FindAllStringSubmatch(read("manifests/monitoring/rules.yaml")+read("manifests/monitoring/dashboard.json"), -1)
	require.Greater(t, len(asked), 3)
	for _, match := range asked {
		for _, name := range strings.Split(match[1], "|") {
			require.True(t, known[name], name)
		}
	}
}
