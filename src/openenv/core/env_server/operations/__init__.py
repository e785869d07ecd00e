"""Operations of a server: metrics, lists of sessions, traces and drain."""
