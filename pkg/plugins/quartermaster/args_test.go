package quartermaster

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestNewRefusesWrongArgs(t *testing.T) {
	t.Parallel()
	_, err := New(t.Context(), &runtime.Unknown{Raw: []byte("oops: 1")}, nil)
	require.ErrorContains(t, err, `unknown field "oops"`)
}
