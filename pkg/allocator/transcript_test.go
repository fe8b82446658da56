package allocator_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var updateTranscripts = flag.Bool("update", false, "rewrite the output in testdata/transcripts as it is now")

const transcriptDir = "testdata/transcripts"

// TestTranscripts runs the stories in testdata/transcripts and compares what comes
// out, to the letter. README.md there describes the commands.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(transcriptDir, "*.txt"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			original, err := os.ReadFile(file)
			require.NoError(t, err)
			script, err := parseTranscript(string(original))
			require.NoError(t, err)
			actual, err := script.run(t.Context())
			require.NoError(t, err)
			if *updateTranscripts {
				require.NoError(t, os.WriteFile(file, []byte(actual.String()), 0o644))
				return
			}
			require.Equal(t, string(original), script.String(), "a file has to be read without loss")
			if err := script.compare(actual); err != nil {
				t.Errorf("%s:%v", file, err)
			}
		})
	}
}

// run executes all commands and returns the transcript with the output that they have.
func (s transcript) run(ctx context.Context) (transcript, error) {
	w := newWorld(ctx)
	actual := transcript{end: s.end}
	for _, step := range s.steps {
		output, err := w.execute(step.command, step.input)
		if err != nil {
			return transcript{}, fmt.Errorf("line %d: %s: %w", step.line, step.command, err)
		}
		step.output = &output
		actual.steps = append(actual.steps, step)
	}
	return actual, nil
}

// compare returns an error if any output is not as expected, or nothing is expected.
func (s transcript) compare(actual transcript) error {
	for i, step := range s.steps {
		got := *actual.steps[i].output
		switch {
		case step.output == nil:
			return fmt.Errorf("%d: %q has no expected output; \"go test -run TestTranscripts -update\" adds it:\n%s",
				step.line, step.command, got)
		case *step.output != got:
			return fmt.Errorf("%d: the output of %q is not as expected (-expected +actual); if it should be, "+
				"\"go test -run TestTranscripts -update\" takes it over:\n%s", step.line, step.command, cmp.Diff(*step.output, got))
		}
	}
	return nil
}
