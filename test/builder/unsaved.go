package builder

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Unsaved prepares an object for creation in a namespace with a typed client: it removes the server's fields, UID and
// version.
func Unsaved[T metav1.Object](namespace string, object T) T {
	object.SetNamespace(namespace)
	object.SetUID("")
	object.SetResourceVersion("")
	return object
}
