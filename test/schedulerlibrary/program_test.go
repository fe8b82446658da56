package schedulerlibrary

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/controlplane"
)

// world is a cluster with questions, as the program reads it.
type world struct {
	whatif.Objects
	// Asked are the pods whose nodes are asked for.
	Asked []*v1.Pod `json:"asked"`
}

// answer answers the questions of a world, as the program writes it.
type answer struct {
	// Fits are the nodes that fit, sorted, for each asked pod alone.
	Fits [][]string `json:"fits"`
	// Placed is the number of asked pods that have a place one after another.
	Placed int `json:"placed"`
	// Alone and InTurn are the times of these answers.
	Alone  time.Duration `json:"alone"`
	InTurn time.Duration `json:"inTurn"`
}

// upstream returns the library's answers.
func upstream(t *testing.T, worlds []world) []answer {
	t.Helper()
	program, err := controlplane.FindBinary("schedulerlibrary")
	require.NoError(t, err, "make test-schedulerlibrary builds it")
	var input, complaints bytes.Buffer
	for i := range worlds {
		require.NoError(t, json.NewEncoder(&input).Encode(&worlds[i]))
	}
	command := exec.CommandContext(t.Context(), program)
	command.Stdin, command.Stderr = &input, &complaints
	output, err := command.Output()
	require.NoError(t, err, &complaints)
	answers, decoder := make([]answer, len(worlds)), json.NewDecoder(bytes.NewReader(output))
	for i := range answers {
		require.NoError(t, decoder.Decode(&answers[i]))
	}
	return answers
}

// ours returns the answers of pkg/whatif.
func ours(t *testing.T, w *world) (a answer) {
	t.Helper()
	now := whatif.New(w.Objects, whatif.Options{})
	start := time.Now()
	for _, pod := range w.Asked {
		explanation, err := now.Explain(t.Context(), pod)
		require.NoError(t, err)
		a.Fits = append(a.Fits, explanation.Fits)
	}
	a.Alone, start = time.Since(start), time.Now()
	fit, err := now.Fit(t.Context(), w.Asked...)
	require.NoError(t, err)
	a.InTurn = time.Since(start)
	a.Placed = len(fit.Plans)
	return a
}
