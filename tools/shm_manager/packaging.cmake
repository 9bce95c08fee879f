# What an installed shm-manager comes with: units for systemd, its manual, completion for bash.
foreach(manager system user)
  foreach(kind service socket)
    configure_file(${CMAKE_CURRENT_LIST_DIR}/systemd/${manager}/shm-manager.${kind}.in
                   ${CMAKE_CURRENT_BINARY_DIR}/systemd/${manager}/shm-manager.${kind} @ONLY)
  endforeach()
endforeach()

find_program(SCDOC scdoc)
if(SCDOC)
  set(manual ${CMAKE_CURRENT_BINARY_DIR}/shm-manager.1)
  add_custom_command(OUTPUT ${manual}
    COMMAND sh -c "\"$1\" <\"$2\" >\"$3\"" - ${SCDOC} ${CMAKE_CURRENT_LIST_DIR}/shm-manager.1.scd
            ${manual}
    DEPENDS ${CMAKE_CURRENT_LIST_DIR}/shm-manager.1.scd
    COMMENT "Writing shm-manager's manual" VERBATIM)
  add_custom_target(shm-manager-manual ALL DEPENDS ${manual})
else()
  message(STATUS "There is no scdoc, so shm-manager goes without a manual")
endif()

if(SHOAL_INSTALL)
  # Not CMAKE_INSTALL_LIBDIR: systemd looks in lib whatever the architecture.
  install(DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/systemd/ DESTINATION lib/systemd)
  if(SCDOC)
    install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  endif()
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/completion/shm-manager.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME shm-manager)
endif()
