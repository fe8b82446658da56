package v1alpha

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type settings struct {
	Parameters runtime.RawExtension `json:"parameters,omitempty"`
	Names      []string             `json:"names,omitempty"`
}

func TestCopySharesNothing(t *testing.T) {
	t.Parallel()
	list := func() *List[settings] {
		return &List[settings]{
			ListMeta: metav1.ListMeta{ResourceVersion: "7"},
			Items:    []settings{{Parameters: runtime.RawExtension{Raw: []byte(`{"a":1.50}`)}, Names: []string{"x"}}},
		}
	}
	original := list()
	copied := Copy(original)
	require.Equal(t, list(), copied)
	copied.Items[0].Names[0], copied.Items[0].Parameters.Raw[2] = "y", 'b'
	require.Equal(t, list(), original)
}

func TestCopyRefusesWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	defer func() { require.Contains(t, recover(), "no object of the API") }()
	Copy(&settings{Parameters: runtime.RawExtension{Raw: []byte(`{`)}})
}
