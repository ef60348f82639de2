// Package session keeps conversations: it branches them, stores them, resumes them in another
// process, and takes the files of the workspace back together with the conversation.
package session
