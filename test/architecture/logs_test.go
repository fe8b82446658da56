package architecture

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wholeLog is an assertion that shows all that was read from a log when it fails.
var wholeLog = regexp.MustCompile(`(?:require|assert)\.(?:Not)?(?:Contains|Regexp)\([^\n(]*\bstring\(log\)`)

// TestAssertionsShowNoWholeLogs: schedulerproc.Process.LogLines finds the lines that an assertion is about.
func TestAssertionsShowNoWholeLogs(t *testing.T) {
	t.Parallel()
	require.Regexp(t, wholeLog, `	require.NotContains(t, string(`+`log), "forbidden")`)
	for path, source := range filesOf(t, root, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		assert.Empty(t, wholeLog.FindString(source), path)
	}
}
