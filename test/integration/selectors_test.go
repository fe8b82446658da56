package integration

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/quartermaster-dra/quartermaster/test/builder"
)

// CEL selectors of classes and requests, good ones and bad ones.
func TestSelectors(t *testing.T) {
	t.Parallel()
	parallel(t, map[string]func(*testing.T){
		"failing in a class":        testFailingClassSelector,
		"failing on one node":       testSelectorFailingOnOneNode,
		"refused by the API server": testRefusedSelectors,
	})
}

// lacking is a condition on an attribute that no device has: an error, because it
// is not asked for first.
func (s *space) lacking() string { return s.Attribute("lacking") + " == 1" }

func testFailingClassSelector(t *testing.T) {
	s := newSpace(t, "badclass", 1)
	s.Devices(0, numbered(2)...)
	bad := s.Name + "-bad"
	s.Create(builder.Class(bad, builder.OfDriver(s.Driver), s.lacking()))
	s.ClaimAndPod("bad", builder.Request("gpu", bad))
	s.Waiting("bad", "selector 1 of device class "+bad, "CEL runtime error", "lacking")
	s.ClaimAndPod("good", s.Want(1))
	s.Running("good")
	// Corrected, it is of use.
	s.Eventually("correct the class", func(ctx context.Context) error {
		class, err := cluster.Client.ResourceV1().DeviceClasses().Get(ctx, bad, metav1.GetOptions{})
		if err != nil {
			return err
		}
		class.Spec.Selectors = class.Spec.Selectors[:1]
		_, err = cluster.Client.ResourceV1().DeviceClasses().Update(ctx, class, metav1.UpdateOptions{})
		return err
	})
	s.RunningSoon("bad")
}

// The devices of one node lack the attribute; those of another have it.
func testSelectorFailingOnOneNode(t *testing.T) {
	s := newSpace(t, "badnode", 2)
	s.Devices(0, builder.Device("dev"))
	s.Devices(1, numbered(1)...)
	s.Create(builder.Claim("any", s.Want(1, s.Attribute("index")+" == 0")).Obj())
	s.Create(s.PodOnNode("there", 0, builder.Uses("any")))
	s.Waiting("there", "claim "+s.Name+"/any request gpu selector 0", "CEL runtime error", "index")
	s.Create(s.Pod("anywhere", builder.Uses("any")))
	s.Running("anywhere")
	require.Equal(t, s.Node(1), s.LivePod("anywhere").Spec.NodeName)
}

// What the API server can find out itself never reaches the scheduler.
func testRefusedSelectors(t *testing.T) {
	s := newSpace(t, "refused", 1)
	s.Devices(0, numbered(1)...)
	// Ten nested loops over ten numbers each.
	costly := "true"
	for _, variable := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		costly = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(" + variable + ", " + costly + ")"
	}
	class := func(expression string) runtime.Object { return builder.Class(s.Name+"-refused", expression) }
	claim := func(expression string) runtime.Object { return builder.Claim("refused", s.Want(1, expression)).Obj() }
	for name, test := range map[string]struct {
		object runtime.Object
		want   string
	}{
		"class, syntax":  {class("device.driver =="), "compilation failed"},
		"class, type":    {class("device.driver"), "must evaluate to bool"},
		"class, costly":  {class(costly), "cost limit"},
		"claim, syntax":  {claim("device.driver =="), "compilation failed"},
		"claim, costly":  {claim(costly), "cost limit"},
		"claim, too few": {builder.Claim("refused", s.Want(-1)).Obj(), "greater than zero"},
	} {
		err := cluster.Objects.Create(t.Context(), s.Name, test.object)
		require.ErrorContains(t, err, test.want, name)
	}
	longest := s.Attribute("index") + " == 0 || " + padding(resourceapi.CELSelectorExpressionMaxLength/2)
	s.ClaimAndPod("long", s.Want(1, longest))
	s.Running("long")
}

// padding is a condition of about so many characters that is false.
func padding(length int) string {
	const never = `device.driver == "nobody.example.com"`
	expression := never
	for len(expression)+len(never)+4 < length {
		expression += " || " + never
	}
	return expression
}
