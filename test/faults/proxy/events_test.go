package proxy

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// written is the event of an object as a server writes it.
func written(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"name":%q}}}`, kind, object)
}

func TestRepeatedEvents(t *testing.T) {
	t.Parallel()
	sent := []string{
		written("ADDED", "a"), written("ADDED", "b"), written("BOOKMARK", ""), written("MODIFIED", "a"), written("DELETED", "b"), written("ADDED", "c"),
	}
	for name, test := range map[string]struct {
		after  int // the event, bookmarks not counted, after which others are repeated
		repeat int
		want   []int // numbers of sent events
	}{
		"the last one":             {after: 0, repeat: 1, want: []int{0, 0, 1, 2, 3, 4, 5}},
		"more than there were":     {after: 0, repeat: 30, want: []int{0, 0, 1, 2, 3, 4, 5}},
		"no end without beginning": {after: 3, repeat: 1, want: []int{0, 1, 2, 3, 4, 5}},
		"several, no bookmark":     {after: 3, repeat: 3, want: []int{0, 1, 2, 3, 4, 1, 3, 4, 5}},
		"all that it remembers":    {after: 4, repeat: 30, want: []int{0, 1, 2, 3, 4, 5, 0, 1, 3, 4, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := -1
			stream := newEventStream(io.NopCloser(strings.NewReader(strings.Join(sent, ""))), func() (Kind, int, time.Duration) {
				if seen++; seen == test.after {
					return RepeatEvents, test.repeat, 0
				}
				return "", 0, 0
			})
			got, err := io.ReadAll(stream)
			require.NoError(t, err)
			var want []string
			for _, i := range test.want {
				want = append(want, sent[i]+"\n")
			}
			require.Equal(t, strings.Join(want, ""), string(got))
		})
	}
}

func TestRemembersNotMoreThanItRepeats(t *testing.T) {
	t.Parallel()
	var sent strings.Builder
	for i := range 3 * maxRepeated {
		sent.WriteString(written("ADDED", fmt.Sprint(i)))
	}
	stream := newEventStream(io.NopCloser(strings.NewReader(sent.String())), func() (Kind, int, time.Duration) { return "", 0, 0 })
	_, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.Len(t, stream.recent, maxRepeated)
	require.Equal(t, written("ADDED", fmt.Sprint(2*maxRepeated)), string(stream.recent[0].raw))
}

func TestBrokenStream(t *testing.T) {
	t.Parallel()
	choose := func() (Kind, int, time.Duration) { return DelayEvents, 0, 0 }
	whole := written("ADDED", "a")
	stream := newEventStream(io.NopCloser(strings.NewReader(whole+whole[:9])), choose)
	got, err := io.ReadAll(stream)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, whole+"\n", string(got), "what is whole gets through")
	_, err = io.ReadAll(newEventStream(io.NopCloser(strings.NewReader(`"text"`)), choose))
	require.ErrorContains(t, err, "not the event of a watch")
}

// As many faults as the rates say, none where there is no rate.
func TestPick(t *testing.T) {
	t.Parallel()
	rates := Rates{Conflict: 0.125, CutAfter: 0.25}
	found := map[Kind]int{}
	const steps = 1024
	for i := range steps {
		found[rates.pick(float64(i)/steps)]++
	}
	require.Equal(t, map[Kind]int{Conflict: 128, CutAfter: 256, "": 640}, found)
	require.Empty(t, Rates(nil).pick(0))
}
