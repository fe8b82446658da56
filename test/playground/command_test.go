package playground

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quartermaster-dra/quartermaster/test/playground/catalogue"
)

func TestChosenScenarios(t *testing.T) {
	t.Parallel()
	all, err := chosenScenarios(nil)
	require.NoError(t, err)
	require.Len(t, all, len(catalogue.Scenarios()))

	some, err := chosenScenarios([]string{"exact-count", "named-claims"})
	require.NoError(t, err)
	require.Len(t, some, 2)
	require.Equal(t, "exact-count", some[0].Name, "in the order of the flag")

	_, err = chosenScenarios([]string{"exact-count", "nonsense"})
	require.ErrorContains(t, err, `"nonsense"`)
}

func TestOpenFolder(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "data"), nil, 0o600))
	config := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(config, []byte("kind: x"), 0o600))
	for name, tc := range map[string]struct {
		flags clusterFlags
		want  string
	}{
		"temporary":     {flags: clusterFlags{}},
		"new":           {flags: clusterFlags{dir: filepath.Join(t.TempDir(), "new", "folder")}},
		"empty":         {flags: clusterFlags{dir: t.TempDir()}},
		"configuration": {flags: clusterFlags{schedulerConfig: config, verbose: true}},
		"not empty":     {flags: clusterFlags{dir: full}, want: "holds 1 entries already"},
		"a file":        {flags: clusterFlags{dir: config}, want: "make the folder of --dir"},
		"no such file":  {flags: clusterFlags{schedulerConfig: "/nowhere"}, want: "read --scheduler-config"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options, folder, err := tc.flags.open()
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.DirExists(t, options.Dir)
			require.Equal(t, tc.flags.schedulerConfig != "", string(options.SchedulerConfig) == "kind: x")
			require.Equal(t, tc.flags.verbose, options.Verbosity > 0)
			require.NoError(t, folder.close(t.Context(), nil))
			if tc.flags.dir == "" {
				require.NoDirExists(t, options.Dir, "temporary folders are removed")
			} else {
				require.DirExists(t, options.Dir, "named folders stay")
			}
		})
	}
}

func TestCloseFolderKeepsLogsOfFailures(t *testing.T) {
	t.Parallel()
	failure := errors.New("the scheduler ended")
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		err  error
		kept bool
	}{
		"success":                         {context.Background(), nil, false},
		"failure":                         {context.Background(), failure, true},
		"interrupted":                     {cancelled, context.Canceled, false},
		"failure while being interrupted": {cancelled, failure, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "work")
			require.NoError(t, os.Mkdir(path, 0o700))
			err := workFolder{path: path, temporary: true}.close(tc.ctx, tc.err)
			require.ErrorIs(t, err, tc.err)
			if !tc.kept {
				require.NoDirExists(t, path)
				return
			}
			require.DirExists(t, path)
			require.ErrorContains(t, err, path, "the error says where the logs are")
		})
	}
}
