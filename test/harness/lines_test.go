package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// TestLinesAbout: a failed test shows what is said about its own objects, and no more than people read.
func TestLinesAbout(t *testing.T) {
	t.Parallel()
	line := func(level, text string) string {
		return level + "1127 09:09:20.571312   30020 schedule_one.go:5] " + text
	}
	long := `"Unable to schedule pod" pod="t-one/p" err="` + strings.Repeat("x", 1000) + `"`
	for name, test := range map[string]struct{ log, want []string }{
		"pods and claims of the space": {
			log:  []string{line("I", `"Attempting to schedule pod" pod="t-one/p"`), line("I", `"Allocated" claim="t-one/c" pod="t-one/p"`)},
			want: []string{`I 09:09:20.571312 "Attempting to schedule pod" pod="t-one/p"`, `I 09:09:20.571312 "Allocated" claim="t-one/c" pod="t-one/p"`},
		},
		"others": {log: []string{
			line("I", `"Attempting to schedule pod" pod="t-one2/p"`), line("E", `"Attempting to schedule pod" pod="t-one2/p"`),
			line("E", `"Attempting to schedule pod" pod="r2-t-one/p"`), line("I", `"Starting reflector" type="*v1.Pod"`),
			"profiles:", "- schedulerName: t-one", "",
		}},
		"nodes, drivers and classes only if something is wrong": {
			log: []string{
				line("I", `"Add event for node" node="t-one-0"`), line("E", `"No room" node="t-one-0"`),
				line("W", `"Incomplete pool" driver="t-one.example.com"`), line("E", `"No class" class="t-one"`),
			},
			want: []string{`E 09:09:20.571312 "No room" node="t-one-0"`, `W 09:09:20.571312 "Incomplete pool" driver="t-one.example.com"`,
				`E 09:09:20.571312 "No class" class="t-one"`},
		},
		"what is said again, about whatever": {
			log: []string{
				line("I", `"Tried" pod="t-one/p" took="8ms"`), line("I", `"Bound" pod="t-one/q"`), line("I", `"Tried" pod="t-one/q-7" took="12ms"`),
				strings.ReplaceAll(line("I", `"Tried" pod="t-one/p" took="9ms"`), "09:09:20", "09:10:00"), line("W", `"Failed" pod="t-one/p"`),
			},
			want: []string{
				`I 09:09:20.571312 "Bound" pod="t-one/q"`, `I 09:10:00.571312 "Tried" pod="t-one/p" took="9ms" (2 before it are like it)`,
				`W 09:09:20.571312 "Failed" pod="t-one/p"`,
			},
		},
		"no line of klog": {log: []string{"panic: t-one/p"}, want: []string{"panic: t-one/p"}},
		"long lines":      {log: []string{line("I", long)}, want: []string{("I 09:09:20.571312 " + long)[:shownBytes] + "..."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, linesAbout([]byte(strings.Join(test.log, "\n")), "t-one"))
		})
	}
	var many []string
	for i := range 100 {
		many = append(many, line("I", fmt.Sprintf(`"Tried" pod="t-one/p" err="%s"`, strings.Repeat("x", i))))
	}
	shown := linesAbout([]byte(strings.Join(many, "\n")), "t-one")
	require.Len(t, shown, shownLines+1)
	require.Equal(t, fmt.Sprintf("(%d others before)", 100-shownLines), shown[0])
	require.Contains(t, shown[shownLines], strings.Repeat("x", 99))
}

// TestDescribeObjects: first come the objects that something may be wrong with.
func TestDescribeObjects(t *testing.T) {
	t.Parallel()
	var o ownObjects
	for i := range 20 {
		o.pods = append(o.pods, *builder.Pod(fmt.Sprintf("runs-%02d", i), func(pod *corev1.Pod) { pod.Spec.NodeName = fmt.Sprint("n", i) }))
		o.claims = append(o.claims, *builder.Claim(fmt.Sprintf("free-%02d", i), builder.Request("r", "c")).Obj())
	}
	o.pods = append(o.pods, *builder.Pod("waits", func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}
	}))
	o.claims = append(o.claims, *builder.Claim("held", builder.Request("gpu", "c")).Allocated("n", "gpu-0"))
	o.slices = []resourceapi.ResourceSlice{*builder.NodeSlice("n", Numbered(3)...).Obj()}
	text := o.String()
	require.Less(t, strings.Count(text, "\n"), 4*(describedObjects+2))
	require.Contains(t, text, "21 pods:\n  waits: ")
	require.Contains(t, text, "0/2 nodes are available\n")
	require.Contains(t, text, "  and 9 more\n")
	require.Contains(t, text, "21 claims:\n  free-00 and 19 others: devices []")
	require.Contains(t, text, "n/gpu-0")
	require.Contains(t, text, "1 slices:\n  n: 3 devices")
}

// TestReadEnd: of a long log the end is read, from the beginning of a line on; a log that is not there is told of.
func TestReadEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "scheduler.log")
	_, err := readEnd(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("one\ntwo\n"), 0o600))
	content, err := readEnd(path)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(content))
	require.NoError(t, os.WriteFile(path, []byte("one\n"+strings.Repeat("x", shownLog)+"\ntwo\n"), 0o600))
	content, err = readEnd(path)
	require.NoError(t, err)
	require.Equal(t, "two\n", string(content))
}

// TestLogsOfASpace: those of all schedulers and guards of the cluster, and its own if that is elsewhere, but not the control plane's.
func TestLogsOfASpace(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"scheduler-a.log", "scheduler-a.log.config.yaml", "guard-1.log", controlPlaneLog} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	s := &Space{Cluster: &Cluster{Logs: folder}, Log: filepath.Join(folder, "scheduler-a.log")}
	want := []string{filepath.Join(folder, "guard-1.log"), filepath.Join(folder, "scheduler-a.log")}
	require.Equal(t, want, s.logs())
	s.Log = "/elsewhere/scheduler.log"
	require.Equal(t, append(want, s.Log), s.logs())
}
