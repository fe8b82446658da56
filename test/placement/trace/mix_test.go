package trace

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMixes: mixes have the part that their names promise, and the first one is the trace.
func TestMixes(t *testing.T) {
	t.Parallel()
	_, drawn := Draw(4, 42)
	_, tasks := Mixes[0].Draw(4, 42)
	require.Equal(t, drawn, tasks)
	for i := range Mixes[1:] {
		m := &Mixes[1+i]
		_, tasks := m.Draw(4, 42)
		in, all := 0.0, 0.0
		for i := range tasks {
			w := m.weight(&tasks[i])
			all += w
			if m.Sort(&tasks[i]) {
				in += w
			}
		}
		require.InDelta(t, m.Part, in/all, 0.05, m.Name)
	}
}
