package architecture

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSubjectsAreShort: a list of commits shows their subjects whole. The rule is younger than the project.
func TestSubjectsAreShort(t *testing.T) {
	t.Parallel()
	const ruled, longest = "43be854b4a69", 72
	git := func(arguments ...string) (string, error) {
		output, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, arguments...)...).Output()
		return string(output), err
	}
	if _, err := git("rev-parse", "--quiet", "--verify", ruled+"^{commit}"); err != nil {
		t.Skip("this is not a clone with its history, so there are no subjects to read")
	}
	subjects, err := git("log", "--no-merges", "--format=%s", ruled+"..HEAD")
	require.NoError(t, err)
	for subject := range strings.Lines(subjects) {
		subject = strings.TrimSuffix(subject, "\n")
		assert.LessOrEqual(t, utf8.RuneCountInString(subject), longest, "%q: the subject of a commit has at most %d characters; the reason goes into the body", subject, longest)
	}
}
