package whatif_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/quartermaster-dra/quartermaster/pkg/whatif"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// What is allocated or does not exist is not open; what a template would make is.
func TestOpenClaims(t *testing.T) {
	t.Parallel()
	o := cluster(1, 2)
	o.Claims = []*resourceapi.ResourceClaim{
		builder.Claim("held", builder.Request("gpu", builder.Driver)).Allocated("node-0000", "gpu-0"),
		builder.Claim("open", builder.Request("gpu", builder.Driver)).Obj(),
	}
	pod := builder.Pod("p", builder.Using(append(builder.Uses("held", "open", "missing"), builder.FromTemplate("two")...)...))
	o.Pods = []*v1.Pod{pod}
	var names []string
	for _, claim := range whatif.New(o, whatif.Options{}).OpenClaims(pod) {
		names = append(names, claim.Name)
	}
	require.Equal(t, []string{"open", "p-two"}, names)
}
