package extended

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	podclaims "github.com/quartermaster-dra/quartermaster/internal/claims"
	"github.com/quartermaster-dra/quartermaster/test/builder"
)

func TestNameOfClaim(t *testing.T) {
	t.Parallel()
	pod := builder.Pod("web-0")
	claim := NewClaim(pod)
	require.Regexp(t, "^web-0-extended-resources-[0-9a-f]{10}$", claim.Name)
	require.Equal(t, "web-0-extended-resources-", claim.GenerateName)
	require.Equal(t, pod.UID, podclaims.MadeFor(claim))
	again := NewClaim(pod)
	require.Equal(t, claim.Name, again.Name, "follows from the pod")
	require.NotEqual(t, claim.UID, again.UID)
	recreated := builder.Pod("web-0", func(pod *v1.Pod) { pod.UID = "another" })
	require.NotEqual(t, claim.Name, NewClaim(recreated).Name)

	long := NewClaim(builder.Pod(strings.Repeat("x", 200)))
	require.Len(t, long.Name, 63)
	require.NotEqual(t, long.Name, NewClaim(builder.Pod(strings.Repeat("x", 201))).Name)
}

func TestOwnerOf(t *testing.T) {
	t.Parallel()
	claim := NewClaim(builder.Pod("p"))
	fromTemplate := claim.DeepCopy()
	fromTemplate.Annotations = nil
	require.Empty(t, podclaims.MadeFor(fromTemplate), "made from a template")
	claim.OwnerReferences = nil
	require.Empty(t, podclaims.MadeFor(claim))
}
